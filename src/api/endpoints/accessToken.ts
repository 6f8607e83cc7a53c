import { z } from 'zod';
import { mintAccessToken } from '../../redis/records/accessTokens.js';
import { accountIdOf, isClientId } from '../../redis/records/accounts.js';
import { ApiError, badParameter } from '../apiError.js';
import { clientAddress, networkOf } from '../clientAddress.js';
import { endpoint } from '../endpoint.js';
import { exampleOf, text, whole } from '../reference/schemas.js';
import type { ApiDeps, Step } from '../step.js';
import { audit } from '../steps/auditCall.js';
import { type Form, formDecoded, formTypes, readForm } from '../steps/form.js';
import { createTokenLimits, RememberedUntil, type TokenLimits } from '../steps/limits.js';

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

/** Mints a token for an account's credentials (contract, section 1). */
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
    return [
      noStore,
      logRefusal(deps),
      readForm,
      takeBasic,
      readFields,
      checkGrantType,
      refuseTooMany(deps, limits),
      answerToken(deps, limits),
    ];
  },
});

interface TokenState extends Credentials {
  fields: Record<'grant_type' | 'client_id' | 'client_secret' | 'scope', string>;
}

export interface Credentials {
  form: Form;
  /** Of an answer 401. */
  challenge?: Record<string, string>;
}

/** RFC 6749, section 5.1: for every answer that may hold a token or information about credentials. */
export const noStore: Step = (ctx, next) => {
  ctx.res.setHeader('Cache-Control', 'no-store');
  ctx.res.setHeader('Pragma', 'no-cache');
  return next();
};

/** Logs the client id and address of a refused token call: the request's own line names neither. */
export const logRefusal =
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
export const takeBasic: Step<Credentials> = (ctx, next) => {
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

const readFields: Step<TokenState> = (ctx, next) => {
  const { form } = ctx.state;
  ctx.state.fields = {
    grant_type: fieldOf(form, 'grant_type'),
    client_id: fieldOf(form, 'client_id'),
    client_secret: fieldOf(form, 'client_secret'),
    scope: fieldOf(form, 'scope'),
  };
  return next();
};

/** @throws ApiError 400 */
export function fieldOf(form: Form, name: string): string {
  const value = form.get(name);
  if (value === undefined) throw badParameter(`The parameter ${name} is missing`);
  if (value === '') throw badParameter(`The parameter ${name} is empty`);
  return value;
}

const checkGrantType: Step<TokenState> = (ctx, next) => {
  if (ctx.state.fields.grant_type !== 'none') {
    throw new ApiError('unsupported_grant_type', 'The grant_type must be none');
  }
  return next();
};

const refuseTooMany =
  ({ config }: ApiDeps, limits: TokenLimits): Step<TokenState> =>
  (ctx, next) => {
    const address = () => clientAddress(ctx.req, config.TRUSTED_PROXIES);
    limits.refuseTooMany(ctx.state.fields.client_id, address);
    return next();
  };

/** RFC 6749, section 5.1. */
const answerToken = (deps: ApiDeps, limits: TokenLimits): Step<TokenState> => {
  const { db, config, metrics } = deps;
  const auditFirst = firstTokenAudit(deps);
  return async (ctx) => {
    const address = clientAddress(ctx.req, config.TRUSTED_PROXIES);
    const { client_id: clientId, client_secret: clientSecret, scope } = ctx.state.fields;
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

/** About 1 MB in each process. */
const rememberedAtMost = 10_000;

/**
 * Records the first token of a day (UTC) that an account asks for from a network: a thief's first one is among them.
 * A process remembers what is recorded, so that the other token calls cost Redis nothing more.
 */
function firstTokenAudit(deps: ApiDeps) {
  const recorded = new RememberedUntil(rememberedAtMost);
  return async (clientId: string, address: string, requestId: string): Promise<void> => {
    const now = Date.now();
    const dayEndsMs = now - (now % dayMs) + dayMs;
    const as = `first token ${networkOf(address)} ${dayEndsMs}`;
    const key = `${clientId} ${as}`;
    if (recorded.leftMs(key, now) > 0) return;
    const call = {
      ...{ accountId: accountIdOf(clientId), clientToken: '', what: 'first token of the day', address },
      ...{ tokenFingerprint: '', requestId, about: { client_id: clientId } },
    };
    await audit(deps, call, { once: { forMs: dayMs, as }, isSecurity: true });
    recorded.remember(key, dayEndsMs);
  };
}

const dayMs = 86_400_000;
