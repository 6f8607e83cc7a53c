import type { Middleware } from 'koa';
import type { Db } from '../../redis/connection/db.js';
import { getEndpoint } from '../../redis/records/endpoint.js';
import type { Registration } from '../../redis/records/registrations.js';
import { composeSteps } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import {
  type PublisherState,
  publisherSteps,
  type RegistrationState,
  requireRegistration,
} from '../steps/publisher.js';
import { presentOptionalTime, presentTime } from './presentTime.js';

/** GET /push_notifications: shows the registration of a client and the state of its endpoint. */
export function pushNotificationsEndpoint({ db }: ApiDeps): Middleware[] {
  return composeSteps<PublisherState & RegistrationState>(
    ...publisherSteps(db),
    requireRegistration(db),
    async (ctx) => {
      ctx.body = await presentRegistration(db, ctx.state.registration);
    },
  );
}

/** Presents a registration with the state of its endpoint. */
export async function presentRegistration(db: Db, registration: Registration) {
  const health = await getEndpoint(db, registration.clientToken);
  return {
    url: registration.url,
    state: health.state,
    state_since: presentOptionalTime(health.lastChange?.atMs),
    state_reason: health.lastChange?.why ?? null,
    registered_at: presentTime(registration.registeredAtMs),
    owed: health.owed,
    last_success_at: presentOptionalTime(health.lastSuccessAt),
    last_failure_at: presentOptionalTime(health.lastFailureAt),
    last_error: health.lastError ?? null,
    next_attempt_at: presentOptionalTime(health.nextAttemptAt),
  };
}
