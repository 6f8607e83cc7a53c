/** Knowing the caller: the token, its account, and the client and notification that a call is about. */
import type { IncomingMessage } from 'node:http';
import { isClientToken, isNotificationId } from '../../ids.js';
import type { Db } from '../../redis/connection/db.js';
import { isRedisUnavailable } from '../../redis/connection/unavailable.js';
import { getNotification, type NotificationRecord } from '../../redis/notifications/notifications.js';
import { type AccessToken, findAccessToken, shareReads } from '../../redis/records/accessTokens.js';
import { type Client, getClient } from '../../redis/records/clients.js';
import { getRegistration, type Registration } from '../../redis/records/registrations.js';
import { ApiError } from '../apiError.js';
import type { Step, StepContext } from '../step.js';
import { required } from './query.js';

export interface TokenState {
  token: AccessToken;
}

export interface ClientState {
  client: Pick<Client, 'clientToken' | 'accountId'>;
}

export type PublisherState = TokenState & ClientState;

/** Finds the account of the access token, as state.token; otherwise 401. @param given returns the token that the call gives */
export function requireToken<State extends TokenState>(
  db: Db,
  given: (ctx: StepContext<State>) => string | undefined = bearerToken,
): Step<State> {
  const find = tokenFinder(db);
  return async (ctx, next) => {
    const token = given(ctx);
    if (token === undefined) {
      // RFC 6750, section 3.1: no error code if no credentials were given.
      const message = 'The access token is missing: send Authorization: Bearer <token>';
      throw new ApiError('invalid_token', message, { 'WWW-Authenticate': 'Bearer' });
    }
    const found = await find(token);
    if (found === undefined) {
      throw new ApiError('invalid_token', 'The access token is no longer valid', {
        'WWW-Authenticate': 'Bearer error="invalid_token"',
      });
    }
    ctx.state.token = found;
    await next();
  };
}

/** Returns the token of `Authorization: Bearer`; undefined if the header is absent or has another scheme. */
export function bearerToken({ req }: { req: IncomingMessage }): string | undefined {
  return /^bearer +(\S+) *$/i.exec(req.headers.authorization ?? '')?.[1];
}

/** How long a token holds that was valid, while the Redis that keeps its account is unavailable: a failover takes 7 s. */
const holdsForMs = 30_000;
const maxHeld = 1000;

/**
 * Finds tokens. Concurrent requests with one token share its look-up, because a busy platform has one token. A call for a client
 * needs the node of that client; while only the node of the account is unavailable, a token found a moment ago holds.
 */
function tokenFinder(db: Db): (token: string) => Promise<AccessToken | undefined> {
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

/** Refuses a token without the scope, as RFC 6750, section 3.1, has it. */
export function insufficientScope(scope: string): ApiError {
  return new ApiError('insufficient_scope', `The access token does not have the scope ${scope}`, {
    'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${scope}"`,
  });
}

/**
 * Finds the client of the query's client_token, as state.client; it must be a child of the token's account.
 * @param orPlatform a token with the scope `enrichments` may name any client, too
 */
export const requireOwnClient =
  (db: Db, { orPlatform = false, refusal = 'unknown_client' as NoClient } = {}): Step<PublisherState> =>
  async (ctx, next) => {
    const { value: clientToken } = required(ctx, 'client_token');
    const { accountId, scopes } = ctx.state.token;
    const isAnyAllowed = orPlatform && scopes.includes('enrichments');
    ctx.state.client = await ownClientOr(refusal, db, { clientToken, accountId, isAnyAllowed });
    await next();
  };

type NoClient = 'invalid_client_token' | 'unknown_client';

/** @throws ApiError with this code, the same for a client that does not exist and for another account's */
export async function ownClientOr(
  refusal: NoClient,
  db: Db,
  asked: { clientToken: string; accountId: string; isAnyAllowed?: boolean },
): Promise<Client> {
  const client = isClientToken(asked.clientToken) ? await getClient(db, asked.clientToken) : undefined;
  if (client && (asked.isAnyAllowed || client.accountId === asked.accountId)) return client;
  throw new ApiError(refusal, 'The client token is not valid for this account');
}

export interface RegistrationState {
  registration: Registration;
}

/** Finds the client's registration, as state.registration; 404 if there is none. */
export const requireRegistration =
  (db: Db): Step<ClientState & RegistrationState> =>
  async (ctx, next) => {
    const registration = await getRegistration(db, ctx.state.client.clientToken);
    if (!registration) throw new ApiError('not_registered', 'No url is registered for this client');
    ctx.state.registration = registration;
    await next();
  };

export interface NotificationStepState extends PublisherState {
  notification: NotificationRecord;
}

/** Finds the client's notification by the id in the path, as state.notification; otherwise 404. */
export const requireOwnNotification =
  (db: Db): Step<NotificationStepState> =>
  async (ctx, next) => {
    const { id = '' } = ctx.params;
    const found = isNotificationId(id) && (await getNotification(db, ctx.state.client.clientToken, id));
    if (!found) throw new ApiError('unknown_notification', 'This client has no such notification');
    ctx.state.notification = found;
    await next();
  };
