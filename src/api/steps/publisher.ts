/** Identifies the caller: the token, its scopes and its account. */
import type { IncomingMessage } from 'node:http';
import { ApiError } from '../../http/apiError.js';
import { shownCharacter } from '../../http/errors.js';
import { Remembered } from '../../http/rates.js';
import { except } from '../../promises.js';
import type { Db } from '../../redis/connection/db.js';
import { ignore, isRedisUnavailable } from '../../redis/connection/unavailable.js';
import { type AccessToken, findAccessToken, shareReads } from '../../redis/records/accessTokens.js';
import { getAccount, signingSecretsScope } from '../../redis/records/accounts.js';

/** Returns the token of `Authorization: Bearer`; undefined if the header is absent or has another scheme. */
export const bearerToken = ({ req }: { req: IncomingMessage }): string | undefined =>
  /^bearer\b[ \t]*(.+)$/i.exec(req.headers.authorization ?? '')?.[1];

/** How long a valid token holds while the Redis that keeps its account is unavailable: a failover takes 7 s. */
const holdsForMs = 30_000;
/** How long a caller with a valid token is known, for the pace of calls. */
const knownForMs = 3_600_000;

/**
 * Finds tokens. Concurrent requests with one token share its look-up, because a busy platform has one token. A call for a client
 * needs the node of that client; while only the node of the account is unavailable, a token found a moment ago holds.
 * @returns a function that returns the token and throws ApiError 401 if there is none; `known` returns one found lately
 */
export function tokenFinder(db: Db) {
  const remembered = new Remembered<{ found: AccessToken; holdsUntilMs: number }>(1000);
  const find = shareReads(async (token) => {
    try {
      const found = await findAccessToken(db, token);
      if (found === undefined) remembered.forget(token);
      else {
        const nowMs = performance.now();
        remembered.remember(token, { found, holdsUntilMs: nowMs + holdsForMs }, nowMs + knownForMs);
      }
      return found;
    } catch (err) {
      const last = isRedisUnavailable(err) ? remembered.recall(token) : undefined;
      if (last === undefined || last.holdsUntilMs < performance.now()) throw err;
      return last.found;
    }
  });
  const findOrRefuse = async (token: string | undefined): Promise<AccessToken> => {
    const found = token === undefined || describeForm(token) ? undefined : await find(token);
    if (found === undefined) throw tokenRefused(token);
    return found;
  };
  const known = (token = ''): AccessToken | undefined => {
    const last = remembered.recall(token);
    // It may have ended: whoever still sends it must not use up the calls of its account.
    if (last && last.holdsUntilMs < performance.now()) find(token).catch(ignore);
    return last?.found;
  };
  return Object.assign(findOrRefuse, { known });
}

/**
 * Returns the refusal of a token, or of a call without one. RFC 6750, section 3.1: no error code if no credentials were given.
 * @param wrong a character that no token has
 */
export function tokenRefused(token: string | undefined, wrong?: RegExp): ApiError {
  const [message, challenge] =
    token === undefined
      ? ['The access token is missing: send Authorization: Bearer <token>', 'Bearer']
      : [describeForm(token, wrong) ?? 'The access token is no longer valid', 'Bearer error="invalid_token"'];
  return new ApiError('invalid_token', message, { 'WWW-Authenticate': challenge });
}

/** Says what is wrong with a text that can be no token; undefined if it can. */
function describeForm(token: string, wrong = /[^A-Za-z0-9_-]/u): string | undefined {
  if (/^(undefined|null|none)$/i.test(token))
    return `The access token is the word ${token}: the caller has sent an empty variable`;
  const [odd] = wrong.exec(token) ?? [];
  if (odd === undefined) return undefined;
  return `The access token has the character ${shownCharacter(odd)}, which no token has: send it as it was answered`;
}

/** Refuses a token without the scope, as RFC 6750, section 3.1, has it. */
export function requireScope({ scopes }: AccessToken, scope: string): void {
  if (scopes.includes(scope)) return;
  throw new ApiError('insufficient_scope', `The access token does not have the scope ${scope}`, {
    'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${scope}"`,
  });
}

/** Requires the scope if the account has it: tokens for general use are minted without it. @throws ApiError 403 */
export async function requireSigningSecretsScope(db: Db, token: AccessToken): Promise<void> {
  if (token.maySeeSecrets === false)
    throw new ApiError(
      'insufficient_scope',
      `${token.by} has made this session, and may see and change no secret`,
    );
  if (token.scopes.includes(signingSecretsScope)) return;
  const account = await getAccount(db, token.accountId);
  if (account?.scopes.includes(signingSecretsScope)) requireScope(token, signingSecretsScope);
}

/** Returns whether a caller may see and change secrets, and has request headers sent where it says. */
export const maySeeSecrets = (db: Db, token: AccessToken): Promise<boolean> =>
  requireSigningSecretsScope(db, token)
    .then(() => true)
    .catch(except(isRefusal, () => false));

const isRefusal = (err: unknown) => err instanceof ApiError;
