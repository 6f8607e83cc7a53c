import type { IncomingMessage } from 'node:http';
import type { Db } from '../../redis/connection/db.js';
import { shareReads } from '../../redis/connection/shareReads.js';
import { isRedisUnavailable } from '../../redis/connection/unavailable.js';
import { type AccessToken, findAccessToken } from '../../redis/records/accessTokens.js';
import { ApiError } from '../apiError.js';
import type { Step } from '../composeSteps.js';

export interface TokenState {
  token: AccessToken;
}

/** Returns the token of `Authorization: Bearer`; undefined if the header is absent or has another scheme. */
export function bearerToken({ req }: { req: IncomingMessage }): string | undefined {
  return /^bearer +(\S+) *$/i.exec(req.headers.authorization ?? '')?.[1];
}

export type FindToken = (token: string) => Promise<AccessToken | undefined>;

/** How long a token holds that was valid, while the Redis that keeps its account is unavailable: a failover takes 7 s. */
const holdsForMs = 30_000;
const maxHeld = 1000;

/**
 * Finds tokens. Concurrent requests with one token share its look-up, because a busy platform has one token. A call for a client
 * needs the node of that client; while only the node of the account is unavailable, a token found a moment ago holds.
 */
export function tokenFinder(db: Db): FindToken {
  const held = new Map<string, { found: AccessToken; at: number }>();
  return shareReads(async (token) => {
    try {
      const found = await findAccessToken(db, token);
      held.delete(token);
      if (found !== undefined) held.set(token, { found, at: performance.now() });
      for (const oldest of held.keys()) {
        if (held.size <= maxHeld) break;
        held.delete(oldest);
      }
      return found;
    } catch (err) {
      const last = held.get(token);
      if (!isRedisUnavailable(err) || last === undefined || performance.now() - last.at > holdsForMs)
        throw err;
      return last.found;
    }
  });
}

/** Finds the account of the bearer token, as state.token; otherwise 401. */
export function requireToken(db: Db): Step<TokenState> {
  const find = tokenFinder(db);
  return async (ctx, next) => {
    ctx.state.token = await tokenOrRefuse(find, bearerToken(ctx));
    await next();
  };
}

/** @throws ApiError 401 */
export async function tokenOrRefuse(find: FindToken, token: string | undefined): Promise<AccessToken> {
  if (token === undefined) {
    // RFC 6750, section 3.1: no error code if no credentials were given.
    const message = 'The access token is missing: send Authorization: Bearer <token>';
    throw new ApiError('invalid_token', message, { 'WWW-Authenticate': 'Bearer' });
  }
  const found = await find(token);
  if (found) return found;
  throw new ApiError('invalid_token', 'The access token is no longer valid', {
    'WWW-Authenticate': 'Bearer error="invalid_token"',
  });
}

/** Refuses a token without the scope, as RFC 6750, section 3.1, has it. */
export function insufficientScope(scope: string): ApiError {
  return new ApiError('insufficient_scope', `The access token does not have the scope ${scope}`, {
    'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${scope}"`,
  });
}
