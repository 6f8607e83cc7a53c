import type { Db } from '../../redis/connection/db.js';
import type { Registration } from '../../redis/records/registrations.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { ApiError } from '../apiError.js';
import type { Step } from '../endpoint.js';
import { requireToken, type TokenState } from './bearer.js';
import { type ClientState, requireOwnClient } from './ownClient.js';

export type PublisherState = TokenState & ClientState;

/** The steps that each call of a publisher about one client begins with. */
export function publisherSteps<State extends PublisherState>(
  db: Db,
): [Step<State>, Step<State>, Step<State>] {
  return [noStore, requireToken(db), requireOwnClient(db)] as unknown as [
    Step<State>,
    Step<State>,
    Step<State>,
  ];
}

/** Answers may hold secrets and are out of date at once. */
export const noStore: Step = async (ctx, next) => {
  ctx.set('Cache-Control', 'no-store');
  await next();
};

/** The client's registration, as state.registration; 404 where there is none. */
export const requireRegistration =
  (db: Db): Step<ClientState & { registration: Registration }> =>
  async (ctx, next) => {
    const registration = await getRegistration(db, ctx.state.client.clientToken);
    if (!registration) throw new ApiError('not_registered', 'No url is registered for this client');
    ctx.state.registration = registration;
    await next();
  };
