/** Finds what an act is about: a client, its registration, a notification. */
import { z } from 'zod';
import { ApiError } from '../http/apiError.js';
import { checked } from '../http/checked.js';
import { askWhetherEmpty, clientTokenText } from '../http/schemas.js';
import { isNoticesClient, isNotificationId } from '../ids.js';
import type { Db } from '../redis/connection/db.js';
import { getNotification } from '../redis/notifications/notifications.js';
import { type Client, getClient } from '../redis/records/clients.js';
import { getRegistration, type Registration } from '../redis/records/registrations.js';

export type Subject = Pick<Client, 'clientToken' | 'accountId'>;

/** What most acts take: the client that the act is about. */
export type About = { client: Subject };

/**
 * Finds a client of the account, or any client if the caller may name any.
 * @throws ApiError 400 for what can be no client token; with the code `refusal`, the same for a client that does not exist and for another account's
 */
export async function ownClient(
  db: Db,
  asked: { clientToken: string; accountId: string; isAnyAllowed?: boolean },
  refusal: 'invalid_client_token' | 'unknown_client' = 'unknown_client',
): Promise<Client> {
  checked(z.object({ client_token: clientTokenText }), { client_token: asked.clientToken });
  const client = await getClient(db, asked.clientToken);
  if (client && (asked.isAnyAllowed || client.accountId === asked.accountId)) return client;
  // RFC 9110, section 11.6.1: a 401 names a scheme.
  const challenge = refusal === 'invalid_client_token' ? { 'WWW-Authenticate': 'Bearer' } : undefined;
  const message = `The client token is not valid for this account${askWhetherEmpty(asked.clientToken)}`;
  throw new ApiError(refusal, message, challenge);
}

/** Returns the registration of a client, or of the client that gets the account's notices. @throws ApiError 404 */
export async function requireRegistration(db: Db, { clientToken }: Subject): Promise<Registration> {
  const registration = await getRegistration(db, clientToken);
  if (registration !== undefined) return registration;
  throw new ApiError(isNoticesClient(clientToken) ? 'no_notices_url' : 'not_registered');
}

/** @throws ApiError 404 */
export async function requireNotification(db: Db, { clientToken }: Subject, id = '') {
  const found = isNotificationId(id) ? await getNotification(db, clientToken, id) : undefined;
  if (found === undefined) throw new ApiError('unknown_notification');
  return found;
}
