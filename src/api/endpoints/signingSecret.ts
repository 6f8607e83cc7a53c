import { z } from 'zod';
import { isNoticesClient } from '../../ids.js';
import { lookOnceMs } from '../../redis/records/audit.js';
import { createSigningSecret, rotateSigningSecret, rotationWaitMs } from '../../redis/records/secrets.js';
import { tooMany } from '../apiError.js';
import { type ClientCall, clientEndpoint } from '../endpoint.js';
import { secretText, time } from '../reference/schemas.js';
import type { ApiDeps } from '../step.js';
import { auditCall } from '../steps/auditCall.js';
import { requireRegistration } from '../steps/publisher.js';
import { presentTime } from './present.js';

const shownSecret = z.object({ signing_secret: secretText });

export const reading = {
  by: 'signingSecrets',
  rate: 'secrets',
  result: { what: 'The secret.', schema: shownSecret },
  answer: showSigningSecret,
} as const;

export const getSigningSecretEndpoint = clientEndpoint({
  ...reading,
  route: 'GET /push_notifications/signing_secret',
  summary: 'Show the signing secret',
  description:
    'Shows the secret that verifies a client’s notifications. It exists before a URL is registered.',
});

/** Shows a signing secret. A client has one before it has a URL; the notices of an account have one only with a URL. */
async function showSigningSecret(deps: ApiDeps, call: ClientCall) {
  if (isNoticesClient(call.client.clientToken)) await requireRegistration(deps.db, call.client);
  await auditCall(deps, call, 'signing secret read', { onceForMs: lookOnceMs, security: 'look' });
  const { clientToken } = call.client;
  const secret = deps.db.durably((db) => createSigningSecret(db, deps.secretBox, clientToken));
  return { signing_secret: await secret.safe };
}

export const rotating = {
  description:
    'Makes a new secret. Previous ones still sign for 24 h each, at most ten of them: while ten do, the answer is 429.',
  after503: 'read the secret before you repeat the call: a repeat makes another one.',
  by: 'signingSecrets',
  rate: 'secrets',
  result: {
    what: 'The new secret.',
    schema: shownSecret.extend({ previous_valid_until: time().nullable() }),
  },
  answer: rotateSecret,
} as const;

export const rotateSigningSecretEndpoint = clientEndpoint({
  ...rotating,
  route: 'POST /push_notifications/signing_secret',
  summary: 'Make a new signing secret',
});

async function rotateSecret(deps: ApiDeps, call: ClientCall) {
  const { clientToken } = call.client;
  if (isNoticesClient(clientToken)) await requireRegistration(deps.db, call.client);
  // Before the audit: a flood of refused calls must not displace the entries of carried out calls.
  const waitMs = await rotationWaitMs(deps.db, clientToken);
  if (waitMs > 0) throw tooManyRotations(waitMs);
  await auditCall(deps, call, 'signing secret rotate', { security: 'change' });
  const rotated = await deps.db.durably((db) => rotateSigningSecret(db, deps.secretBox, clientToken)).safe;
  if (rotated.outcome === 'too_many') throw tooManyRotations(rotated.waitMs);
  deps.notices.claimSoon(clientToken);
  return {
    signing_secret: rotated.signingSecret,
    previous_valid_until: presentTime(rotated.previousValidUntilMs),
  };
}

const rotations = { name: 'rotations', calls: 10, windowSeconds: 86_400 };

const tooManyRotations = (waitMs: number) =>
  tooMany('Ten previous signing secrets still sign, for 24 h each', rotations, waitMs);
