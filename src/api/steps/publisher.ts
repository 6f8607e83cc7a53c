import type { Db } from '../../redis/connection/db.js';
import type { Registration } from '../../redis/records/registrations.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { ApiError } from '../apiError.js';
import type { Step } from '../composeSteps.js';
import { requireToken, type TokenState } from './bearer.js';
import { type ClientState, requireOwnClient } from './ownClient.js';

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
