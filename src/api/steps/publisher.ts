import { isClientToken, isNotificationId } from '../../ids.js';
import type { Db } from '../../redis/connection/db.js';
import { getNotification, type NotificationRecord } from '../../redis/notifications/notifications.js';
import { type Client, getClient } from '../../redis/records/clients.js';
import { getRegistration, type Registration } from '../../redis/records/registrations.js';
import { ApiError } from '../apiError.js';
import type { Step } from '../composeSteps.js';
import { requireToken, type TokenState } from './bearer.js';
import { required } from './readQuery.js';

export type PublisherState = TokenState & ClientState;

export interface RegistrationState {
  registration: Registration;
}

/**
 * Returns the steps that each call of a publisher about one client begins with.
 * @param whose passed on to requireOwnClient
 */
export function publisherSteps(db: Db, whose: { orPlatform?: boolean } = {}): Step<PublisherState>[] {
  return [noStore, requireToken(db), requireOwnClient(db, whose)];
}

/** Forbids storing the answer: it may hold secrets and is soon out of date. */
export const noStore: Step = async (ctx, next) => {
  ctx.set('Cache-Control', 'no-store');
  await next();
};

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

/** Finds the client's notification by the id in the path, as state.notification. @throws ApiError 404 */
export const requireOwnNotification =
  (db: Db): Step<NotificationStepState> =>
  async (ctx, next) => {
    const { id = '' } = ctx.params;
    const found = isNotificationId(id) && (await getNotification(db, ctx.state.client.clientToken, id));
    if (!found) throw new ApiError('unknown_notification', 'This client has no such notification');
    ctx.state.notification = found;
    await next();
  };

export interface ClientState {
  client: Pick<Client, 'clientToken' | 'accountId'>;
}

/**
 * Finds the client of the query's client_token, as state.client; it must be a child of the token's account.
 * @param orPlatform a token with the scope `enrichments` may name any client, too
 */
export const requireOwnClient =
  (db: Db, { orPlatform = false } = {}): Step<TokenState & ClientState> =>
  async (ctx, next) => {
    const { value: clientToken } = required(ctx, 'client_token');
    const { accountId, scopes } = ctx.state.token;
    const isAnyAllowed = orPlatform && scopes.includes('enrichments');
    ctx.state.client = await ownClientOr('unknown_client', db, { clientToken, accountId, isAnyAllowed });
    await next();
  };

/** @throws ApiError with this code, the same for a client that does not exist and for another account's */
export async function ownClientOr(
  refusal: 'invalid_client_token' | 'unknown_client',
  db: Db,
  { clientToken, accountId, isAnyAllowed = false }: AskedClient,
): Promise<Client> {
  const client = isClientToken(clientToken) ? await getClient(db, clientToken) : undefined;
  if (client && (isAnyAllowed || client.accountId === accountId)) return client;
  throw new ApiError(refusal, 'The client token is not valid for this account');
}

interface AskedClient {
  clientToken: string;
  accountId: string;
  /** Of whichever account. */
  isAnyAllowed?: boolean;
}
