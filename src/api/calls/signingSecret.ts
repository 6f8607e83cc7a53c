import { z } from 'zod';
import { presentTime } from '../../acts/present.js';
import { requireRegistration } from '../../acts/subjects.js';
import { tooMany } from '../../http/apiError.js';
import { secretText, time } from '../../http/schemas.js';
import { isNoticesClient } from '../../ids.js';
import { lookOnceMs } from '../../redis/records/audit.js';
import { createSigningSecret, rotateSigningSecret, rotationWaitMs } from '../../redis/records/secrets.js';
import { type ClientRequest, clientCall } from '../call.js';
import type { ApiDeps } from '../deps.js';
import { auditCall } from '../steps/auditCall.js';

const shownSecret = z.object({ signing_secret: secretText });

export const reading = {
  by: 'signingSecrets',
  rate: 'secrets',
  result: { what: 'The secret.', schema: shownSecret },
  answer: showSigningSecret,
} as const;

export const getSigningSecretCall = clientCall({
  ...reading,
  route: 'GET /push_notifications/signing_secret',
  summary: 'Show the signing secret',
  description:
    'Shows the secret that verifies a client’s notifications. It exists before a URL is registered.',
});

/** Shows a signing secret. A client has one before it has a URL; the notices of an account have one only with a URL. */
async function showSigningSecret(deps: ApiDeps, request: ClientRequest) {
  if (isNoticesClient(request.client.clientToken)) await requireRegistration(deps.db, request.client);
  await auditCall(deps, request, 'signing secret read', { onceForMs: lookOnceMs, security: 'look' });
  const { clientToken } = request.client;
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

export const rotateSigningSecretCall = clientCall({
  ...rotating,
  route: 'POST /push_notifications/signing_secret',
  summary: 'Make a new signing secret',
});

async function rotateSecret(deps: ApiDeps, request: ClientRequest) {
  const { clientToken } = request.client;
  if (isNoticesClient(clientToken)) await requireRegistration(deps.db, request.client);
  // Before the audit: a flood of refused calls must not displace the entries of carried out calls.
  const waitMs = await rotationWaitMs(deps.db, clientToken);
  if (waitMs > 0) throw tooManyRotations(waitMs);
  await auditCall(deps, request, 'signing secret rotate', { security: 'change' });
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
