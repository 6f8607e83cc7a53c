import { z } from 'zod';
import type { Db } from '../../redis/connection/db.js';
import { getEndpoint } from '../../redis/records/endpoint.js';
import type { Registration } from '../../redis/records/registrations.js';
import { clientEndpoint } from '../endpoint.js';
import { text, time, whole } from '../reference/schema.js';
import { endpointState, urlText } from '../reference/schemas.js';
import { type PublisherState, type RegistrationState, requireRegistration } from '../steps/publisher.js';
import { presentOptionalTime, presentTime } from './present.js';

/** A registration with the state of its endpoint. */
export const registeredUrl = z.object({
  url: urlText,
  state: endpointState,
  state_since: time().nullable(),
  state_reason: text('registered').nullable(),
  registered_at: time(),
  owed: whole(0, 'The assets that the client is owed.'),
  last_success_at: time().nullable(),
  last_failure_at: time().nullable(),
  last_error: text('timeout').nullable(),
  next_attempt_at: time().nullable(),
});

export const pushNotificationsEndpoint = clientEndpoint<PublisherState & RegistrationState>({
  method: 'get',
  path: '/push_notifications',
  operationId: 'getPushNotifications',
  tag: 'Endpoint',
  summary: 'Show the registration and the state of its endpoint',
  answers: { 200: { what: 'The registration.', schema: registeredUrl } },
  codes: ['not_registered'],
  steps: ({ db }) => [
    requireRegistration(db),
    async (ctx) => {
      ctx.body = await presentRegistration(db, ctx.state.registration);
    },
  ],
});

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
