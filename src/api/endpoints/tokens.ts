import { z } from 'zod';
import { fingerprintOfOwn, mintAccessToken, revokeAccessToken } from '../../redis/records/accessTokens.js';
import { accountIdOf, areCredentials, isClientId } from '../../redis/records/accounts.js';
import { ApiError, badParameter } from '../apiError.js';
import { clientAddress } from '../clientAddress.js';
import { endpoint } from '../endpoint.js';
import { exampleOf, text, whole } from '../reference/schemas.js';
import type { ApiDeps, Step } from '../step.js';
import { audit, firstTokenAudit } from '../steps/auditCall.js';
import { type Form, formDecoded, formTypes, readForm } from '../steps/form.js';
import { createTokenLimits, type TokenLimits } from '../steps/limits.js';

const form = z.object({
  grant_type: z.literal('none'),
  client_id: text('cid_7Qd2mVx0').min(1),
  client_secret: text('cs_4f0Zc1Yt8mJr6Kq2').min(1),
  scope: text('push_notifications', 'One or more scopes, separated by spaces.').min(1),
});
const mintedToken = z.object({
  access_token: text('tok_4nV0'),
  token_type: z.literal('Bearer'),
  expires_in: whole(3600, 'Seconds.'),
  scope: text('push_notifications'),
});

export const accessTokenEndpoint = endpoint<TokenState>({
  method: 'post',
  path: '/oauth/access_token',
  operationId: 'createAccessToken',
  tag: 'Tokens',
  summary: 'Create an access token',
  description:
    'Exchanges the credentials of an account for an access token. A new token ends no earlier one. Ask for `push_notifications`; a platform asks for `enrichments`; an account that has `signing_secrets` needs it to read and rotate signing secrets. The credentials may come as `Authorization: Basic` instead of fields (RFC 6749, section 2.3.1), but not both ways.',
  after503: 'ask again: a token that was made and not answered is known to nobody, and expires.',
  body: {
    schema: form,
    types: formTypes,
    examples: { 'A token for a publisher’s server': exampleOf(form) },
  },
  answers: {
    200: {
      what: 'The token.',
      schema: mintedToken,
      headers: { 'Cache-Control': { required: true, schema: { type: 'string', pattern: '^no-store$' } } },
    },
  },
  codes: [
    ...([
      'unsupported_grant_type',
      'invalid_scope',
      'invalid_client',
      'body_too_long',
      'unsupported_media_type',
    ] as const),
    ...(['too_many_requests', 'temporarily_unavailable'] as const),
  ],
  under: 'oauth',
  steps: (deps) => {
    const limits = createTokenLimits(deps.db, deps.config.TOKEN_RATE_PER_SECOND);
    return [...credentialSteps<TokenState>(deps), readFields(form), mint(deps, limits)];
  },
});

interface Credentials {
  form: Form;
  /** Of an answer 401. */
  challenge?: Record<string, string>;
}

interface FieldState<Name extends string> extends Credentials {
  fields: Record<Name, string>;
}

type TokenState = FieldState<keyof typeof form.shape>;

/** Returns the steps that read the form of a call and the credentials in it. */
function credentialSteps<State extends Credentials>(deps: ApiDeps): Step<State>[] {
  return [noStore, logRefusal(deps), readForm, takeBasic];
}

/** RFC 6749, section 5.1: for every answer that may hold a token or information about credentials. */
const noStore: Step = (ctx, next) => {
  ctx.res.setHeader('Cache-Control', 'no-store');
  ctx.res.setHeader('Pragma', 'no-cache');
  return next();
};

/** Logs the client id and address of a refused token call: the request's own line names neither. */
const logRefusal =
  ({ log, config }: ApiDeps): Step<{ form?: Form }> =>
  async (ctx, next) => {
    try {
      await next();
    } catch (err) {
      if (err instanceof ApiError) {
        const given = ctx.state.form?.get('client_id') ?? '';
        log.info(
          {
            // Any other value may be a secret in the wrong field.
            client_id: isClientId(given) ? given : 'malformed',
            address: clientAddress(ctx.req, config.TRUSTED_PROXIES),
            error: err.code,
            status: err.status,
            request_id: ctx.state.requestId,
          },
          'a token call was refused',
        );
      }
      throw err;
    }
  };

/**
 * Takes credentials of `Authorization: Basic` as if they were fields: RFC 6749, section 2.3.1, each form-encoded before
 * base64. Other schemes are not for this call. @throws ApiError 400
 */
const takeBasic: Step<Credentials> = (ctx, next) => {
  const [, given] = /^basic +(\S+) *$/i.exec(ctx.req.headers.authorization ?? '') ?? [];
  if (given === undefined) return next();
  const { form } = ctx.state;
  if (form.has('client_id') || form.has('client_secret')) {
    throw badParameter('The client credentials must be given either as fields or as a header, not as both');
  }
  const [clientId, ...rest] = Buffer.from(given, 'base64').toString('latin1').split(':');
  ctx.state.form = new Map([
    ...form,
    ['client_id', formDecoded(clientId ?? '', 'utf-8')],
    ['client_secret', formDecoded(rest.join(':'), 'utf-8')],
  ]);
  // RFC 6749, section 5.2: only who tried this scheme is told of it.
  ctx.state.challenge = { 'WWW-Authenticate': 'Basic realm="oauth", charset="UTF-8"' };
  return next();
};

/** Reads the fields of a form, each of which must be there. @throws ApiError 400 */
const readFields =
  <Name extends string>(schema: z.ZodObject<Record<Name, z.ZodType>>): Step<FieldState<Name>> =>
  (ctx, next) => {
    const fields = {} as Record<Name, string>;
    for (const name of Object.keys(schema.shape) as Name[]) {
      const value = ctx.state.form.get(name);
      if (value === undefined) throw badParameter(`The parameter ${name} is missing`);
      if (value === '') throw badParameter(`The parameter ${name} is empty`);
      fields[name] = value;
    }
    ctx.state.fields = fields;
    return next();
  };

const mint = (deps: ApiDeps, limits: TokenLimits): Step<TokenState> => {
  const { db, config, metrics } = deps;
  const auditFirst = firstTokenAudit(deps);
  return async (ctx) => {
    const { grant_type, client_id: clientId, client_secret: clientSecret, scope } = ctx.state.fields;
    if (grant_type !== 'none') throw new ApiError('unsupported_grant_type', 'The grant_type must be none');
    const address = clientAddress(ctx.req, config.TRUSTED_PROXIES);
    limits.refuseTooMany(clientId, address);
    const scopes = [...new Set(scope.split(/\s+/))];
    const ttlSeconds = config.ACCESS_TOKEN_TTL_SECONDS;
    const minted = await db.durably((own) =>
      mintAccessToken(own, { clientId, clientSecret }, scopes, ttlSeconds),
    ).safe;
    switch (minted.outcome) {
      case 'invalid_client':
        await limits.countFailure(clientId, address);
        throw new ApiError('invalid_client', 'The client credentials are not valid', ctx.state.challenge);
      case 'invalid_scope':
        throw new ApiError('invalid_scope', 'The account does not have all of the scopes asked for');
      case 'minted':
        limits.countToken(clientId);
        await auditFirst(clientId, address, ctx.state.requestId);
        metrics.tokenMinted();
        ctx.body = {
          access_token: minted.token,
          token_type: 'Bearer',
          expires_in: Math.floor(ttlSeconds),
          scope: scopes.join(' '),
        };
    }
  };
};

const revocation = z.object({
  token: text('tok_4nV0').min(1),
  client_id: text('cid_7Qd2mVx0').min(1),
  client_secret: text('cs_4f0Zc1Yt8mJr6Kq2').min(1),
});

export const revokeTokenEndpoint = endpoint<RevokeState>({
  method: 'post',
  path: '/oauth/revoke',
  operationId: 'revokeAccessToken',
  tag: 'Tokens',
  summary: 'Revoke an access token',
  description:
    'Ends an access token of the account immediately (RFC 7009). An unknown, expired or foreign token is answered 200 as well. Sessions of the console that the token has opened stay open. The credentials may come as `Authorization: Basic`.',
  after503: 'send it again.',
  body: {
    schema: revocation,
    types: formTypes,
    examples: { 'A token that is no longer needed': exampleOf(revocation) },
  },
  answers: { 200: { what: 'The token is not valid, or no longer.', schema: z.object({}) } },
  codes: [
    ...(['invalid_client', 'body_too_long', 'unsupported_media_type'] as const),
    ...(['too_many_requests', 'temporarily_unavailable'] as const),
  ],
  under: 'oauth',
  steps: (deps) => [...credentialSteps<RevokeState>(deps), readFields(revocation), revoke(deps)],
});

type RevokeState = FieldState<keyof typeof revocation.shape>;

function revoke(deps: ApiDeps): Step<RevokeState> {
  const { db, config } = deps;
  const limits = createTokenLimits(db, config.TOKEN_RATE_PER_SECOND);
  return async (ctx) => {
    const { token, client_id: clientId, client_secret: clientSecret } = ctx.state.fields;
    const address = clientAddress(ctx.req, config.TRUSTED_PROXIES);
    limits.refuseTooMany(clientId, address);
    if (!(await areCredentials(db, { clientId, clientSecret }))) {
      await limits.countFailure(clientId, address);
      throw new ApiError('invalid_client', 'The client credentials are not valid', ctx.state.challenge);
    }
    limits.countToken(clientId);
    const accountId = accountIdOf(clientId);
    const tokenFingerprint = await fingerprintOfOwn(db, accountId, token);
    if (tokenFingerprint !== undefined) {
      const { requestId } = ctx.state;
      const about = { client_id: clientId };
      const what = 'access token revoked';
      const call = { accountId, clientToken: '', what, address, tokenFingerprint, requestId, about };
      await audit(deps, call, { isSecurity: true });
      await db.durably((own) => revokeAccessToken(own, accountId, token)).safe;
    }
    ctx.body = {};
  };
}
