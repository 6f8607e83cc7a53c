import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { ApiError, badParameter, tooMany } from '../../http/apiError.js';
import { readForm, urlencoded } from '../../http/body.js';
import { clientAddress, networkOf } from '../../http/clientAddress.js';
import type { ApiContext } from '../../http/context.js';
import { makeExample } from '../../http/example.js';
import { formDecoded, type Parameters, required } from '../../http/query.js';
import { integer, text } from '../../http/schemas.js';
import { fingerprintOfOwn, mintAccessToken, revokeAccessToken } from '../../redis/records/accessTokens.js';
import {
  accountIdOf,
  areCredentials,
  type Credentials,
  isClientId,
  secretHash,
} from '../../redis/records/accounts.js';
import { type Description, declareCall } from '../call.js';
import type { ApiDeps } from '../deps.js';
import { auditCall } from '../steps/auditCall.js';

const credentialFields = {
  client_id: text('cid_7Qd2mVx0').min(1),
  client_secret: text('cs_4f0Zc1Yt8mJr6Kq2').min(1),
};

export const createAccessTokenCall = credentialCall({
  route: 'POST /oauth/access_token',
  summary: 'Create an access token',
  description:
    'Exchanges the credentials of an account for an access token. A new token ends no earlier one. Ask for `push_notifications`; a platform asks for `enrichments`; an account that has `signing_secrets` needs it to read and rotate signing secrets. The credentials may come as `Authorization: Basic` instead of fields (RFC 6749, section 2.3.1), but not both ways.',
  after503: 'ask again: a token that was made and not answered is known to nobody, and expires.',
  form: z.object({
    grant_type: z.literal('none'),
    ...credentialFields,
    scope: text('push_notifications', 'One or more scopes, separated by spaces.').min(1),
  }),
  example: 'A token for a publisher’s server',
  result: {
    what: 'The token.',
    schema: z.object({
      access_token: text('tok_4nV0'),
      token_type: z.literal('Bearer'),
      expires_in: integer(3600, 'Seconds.'),
      scope: text('push_notifications'),
    }),
    headers: { 'Cache-Control': { required: true, schema: { type: 'string', pattern: '^no-store$' } } },
  },
  codes: ['unsupported_grant_type', 'invalid_scope'],
  answer: async (deps, { ctx, form, credentials, address }) => {
    const { ACCESS_TOKEN_TTL_SECONDS: ttlSeconds, TOKEN_RATE_PER_SECOND: perSecond } = deps.config;
    if (form.get('grant_type') !== 'none') throw new ApiError('unsupported_grant_type');
    const { clientId } = credentials;
    deps.failures.refuseTooMany(clientId, address);
    const quota = { name: 'tokens', calls: perSecond, windowSeconds: 1 };
    const tooManyTokens = (waitMs: number) => tooMany('Too many requests for this client_id', quota, waitMs);
    // A flood would have each refusal wait for Redis' disk, before everybody's events. Whoever has another secret is not told.
    const known = secretHash(`${clientId} ${credentials.clientSecret}`);
    const usedUpMs = deps.usedUp.recall(known);
    if (usedUpMs !== undefined) throw tooManyTokens(usedUpMs - performance.now());
    const scopes = [...new Set(required(form, 'scope').split(/\s+/))];
    const rate = { ttlSeconds, perSecond };
    const minted = await deps.db.durably((own) => mintAccessToken(own, credentials, scopes, rate)).safe;
    if (minted.outcome === 'too_many') {
      const untilMs = performance.now() + minted.waitMs;
      deps.usedUp.remember(known, untilMs, untilMs);
      throw tooManyTokens(minted.waitMs);
    }
    if (minted.outcome === 'invalid_client') return undefined;
    if (minted.outcome === 'invalid_scope') {
      const hint = describeScopes(form.get('scope') ?? '');
      throw new ApiError('invalid_scope', `The account does not have all of the scopes asked for${hint}`);
    }
    await auditFirstToken(deps, ctx, clientId, address);
    deps.metrics.tokenMinted();
    return {
      access_token: minted.token,
      token_type: 'Bearer',
      expires_in: Math.floor(ttlSeconds),
      scope: scopes.join(' '),
    };
  },
});

/** Says what is wrong with a scope that no account can have. */
function describeScopes(scope: string): string {
  if (/%[\da-f]{2}/i.test(scope)) return ': they are percent-encoded twice';
  if (/["'`[\](){}<>\u2018-\u201f]/.test(scope)) return ': send them without quotes and brackets';
  if (/[^\w\s.:/-]/.test(scope)) return ': separate scopes by spaces';
  return /[A-Z]/.test(scope) ? ': they are written in lower case' : '';
}

export const revokeAccessTokenCall = credentialCall({
  route: 'POST /oauth/revoke',
  summary: 'Revoke an access token',
  description:
    'Ends an access token of the account immediately (RFC 7009). An unknown, expired or foreign token is answered 200 as well. Sessions of the console that the token has opened stay open. The credentials may come as `Authorization: Basic`.',
  after503: 'send it again.',
  form: z.object({ token: text('tok_4nV0').min(1), ...credentialFields }),
  example: 'A token that is no longer needed',
  result: { what: 'The token is not valid, or no longer.', schema: z.object({}) },
  answer: async (deps, { ctx, form, credentials, address }) => {
    const { clientId } = credentials;
    deps.failures.refuseTooMany(clientId, address);
    if (!(await areCredentials(deps.db, credentials))) return undefined;
    const accountId = accountIdOf(clientId);
    await deps.paceAccount(ctx, accountId);
    const token = required(form, 'token');
    const fingerprint = await fingerprintOfOwn(deps.db, accountId, token);
    if (fingerprint !== undefined) {
      const about = { client_id: clientId };
      const request = { ctx, token: { accountId, fingerprint } };
      await auditCall(deps, request, 'access token revoked', { security: 'credentials', about });
    }
    // Also where there is none: a call before this one may have ended it, and not know that it is on disk.
    await deps.db.durably((own) => revokeAccessToken(own, accountId, token)).safe;
    return {};
  },
});

interface CredentialRequest {
  ctx: ApiContext;
  form: Parameters;
  credentials: Credentials;
  address: string;
}

interface Declared extends Omit<Description, 'body'> {
  form: z.ZodObject;
  example: string;
  /** Returns the body of the answer; undefined if the credentials are not valid. */
  answer: (deps: ApiDeps, request: CredentialRequest) => Promise<object | undefined>;
}

/** Declares a call with the credentials of an account, in a form or as `Authorization: Basic`. */
function credentialCall({ form: schema, example, answer, ...of }: Declared) {
  const names = Object.keys(schema.shape);
  return declareCall({
    ...of,
    body: { schema, type: urlencoded, examples: { [example]: makeExample(schema) } },
    codes: [...(of.codes ?? []), 'invalid_client'],
    answer: async (deps, { ctx }) => {
      // RFC 6749, section 5.1: for every answer that may hold a token or information about credentials.
      ctx.set({ 'Cache-Control': 'no-store', Pragma: 'no-cache' });
      const address = clientAddress(ctx.req, deps.config.TRUSTED_PROXIES);
      let form: Parameters = new Map();
      try {
        form = await readForm(ctx.req);
        if (form.size === 0)
          throw badParameter(
            `The request has no body, or an empty one: send ${names.join(', ')} as ${urlencoded}`,
          );
        const basic = basicCredentials(ctx.req);
        if (basic && form.has('client_secret'))
          throw badParameter(
            'The client credentials must be given either as fields or as a header, not as both',
          );
        // RFC 6749, section 3.2.1: a client_id alone is no second way.
        if (basic && (form.get('client_id') ?? basic.client_id) !== basic.client_id)
          throw badParameter('The client_id of the form is not that of the header Authorization');
        form = new Map([...form, ...Object.entries(basic ?? {})]);
        for (const name of names) required(form, name, { known: names });
        const clientId = required(form, 'client_id');
        const credentials = { clientId, clientSecret: required(form, 'client_secret') };
        const body = await answer(deps, { ctx, form, credentials, address });
        if (body !== undefined) return body;
        await deps.failures.count(clientId, address);
        // RFC 6749, section 5.2: only a caller who tried this scheme is told of it.
        const challenge = basic && { 'WWW-Authenticate': 'Basic realm="oauth", charset="UTF-8"' };
        throw new ApiError('invalid_client', 'The client credentials are not valid', challenge);
      } catch (err) {
        if (err instanceof ApiError) {
          const given = form.get('client_id') ?? '';
          // Any other value may be a secret in the wrong field. The request's own line names neither id nor address.
          const client_id = isClientId(given) ? given : 'malformed';
          const { code: error, status } = err;
          const refused = { client_id, address, error, status, request_id: ctx.state.requestId };
          deps.log.info(refused, 'a token call was refused');
        }
        throw err;
      }
    },
  });
}

/**
 * Returns the credentials of `Authorization: Basic`, each form-encoded before base64, and trimmed as fields are; other schemes are
 * ignored. @throws ApiError 400
 */
function basicCredentials({ headers }: IncomingMessage) {
  const { authorization = '' } = headers;
  if (!/^basic\b/i.test(authorization)) return undefined;
  const given = authorization.slice('basic'.length).trim();
  if (!/^[\w+/-]+={0,2}$/.test(given))
    throw badParameter(
      'The header Authorization: Basic is not one piece of base64: encode without blanks or line breaks',
    );
  const pair = Buffer.from(given, 'base64').toString('latin1');
  const [clientId = '', ...secret] = pair.split(':');
  if (secret.length === 0 || pair.includes('\0'))
    throw badParameter(
      'The header Authorization: Basic is not the base64 of <client_id>:<client_secret> in UTF-8',
    );
  return {
    client_id: formDecoded(clientId, 'client_id').trim(),
    client_secret: formDecoded(secret.join(':'), 'client_secret').trim(),
  };
}

const dayMs = 86_400_000;

/**
 * Records the first token of a day (UTC) that an account asks for from a network: a thief's first token is among them.
 * A process remembers what is recorded, so that the other token calls cost Redis nothing more.
 */
async function auditFirstToken(deps: ApiDeps, ctx: ApiContext, clientId: string, address: string) {
  const nowMs = Date.now();
  const dayEndsMs = nowMs - (nowMs % dayMs) + dayMs;
  const repeatKey = `first token ${networkOf(address)} ${dayEndsMs}`;
  const key = `${clientId} ${repeatKey}`;
  if (deps.auditedTokens.recall(key)) return;
  const about = { client_id: clientId };
  const request = { ctx, token: { accountId: accountIdOf(clientId), fingerprint: '' } };
  const recording = { about, onceForMs: dayMs, repeatKey, security: 'credentials' } as const;
  await auditCall(deps, request, 'first token of the day', recording);
  deps.auditedTokens.remember(key, true, performance.now() + dayEndsMs - nowMs);
}
