import { z } from 'zod';
import { rotate, showSigningSecret } from '../../acts/secrets.js';
import type { Subject } from '../../acts/subjects.js';
import { secretText, time } from '../../http/schemas.js';
import { clientCall } from '../call.js';

const shownSecret = z.object({ signing_secret: secretText });

export const reading = {
  act: showSigningSecret,
  input: ({ client }: { client: Subject }) => ({ client }),
  rate: 'secrets',
  result: { what: 'The secret.', schema: shownSecret },
} as const;

export const getSigningSecretCall = clientCall({
  ...reading,
  route: 'GET /push_notifications/signing_secret',
  summary: 'Show the signing secret',
  description:
    'Shows the secret that verifies a client’s notifications. It exists before a URL is registered.',
});

export const rotating = {
  act: rotate,
  input: ({ client }: { client: Subject }) => ({ client }),
  description:
    'Makes a new secret. Previous ones still sign for 24 h each, at most ten of them: while ten do, the answer is 429.',
  after503: 'read the secret before you repeat the call: a repeat makes another one.',
  rate: 'secrets',
  result: {
    what: 'The new secret.',
    schema: shownSecret.extend({ previous_valid_until: time().nullable() }),
  },
} as const;

export const rotateSigningSecretCall = clientCall({
  ...rotating,
  route: 'POST /push_notifications/signing_secret',
  summary: 'Make a new signing secret',
});
