import { noticesBody } from '../../endpoints/notices.js';
import type { ErrorCode } from '../../errors.js';
import { answer, type CallDescription, call, jsonBody, rateHeaders, secretScope, urlCodes } from '../call.js';
import { object, orNull, schemaOf, text, time } from '../schema.js';
import { secretText } from '../schemas.js';
import { registration } from './endpoint.js';

const at = '2026-01-31T12:00:00.000Z';
const url = 'https://ops.example.com/hooks/notices';
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const scope = 'A token with any scope of the account is accepted.';

const example = {
  ...{ url, state: 'active', state_since: at, state_reason: 'registered', registered_at: at, owed: 0 },
  ...{ last_success_at: null, last_failure_at: null, last_error: null, next_attempt_at: null },
};

const usual: ErrorCode[] = ['invalid_request', 'too_many_parameters', 'invalid_token'];
const ofAccount = (of: Omit<CallDescription, 'tag' | 'security'>) =>
  call({
    ...of,
    tag: 'Notices',
    security: 'token',
    codes: [...usual, ...of.codes, 'temporarily_unavailable'],
  });

export const noticeCalls = {
  '/notices/signing_secret': {
    get: ofAccount({
      operationId: 'getNoticesSecret',
      summary: 'Show the signing secret of the notices',
      description: `Shows the secret that verifies the account’s notices. The first PUT /notices makes it. ${secretScope}`,
      success: {
        '200': answer('The secret.', object({ signing_secret: secretText }), { signing_secret: secret }),
      },
      codes: ['insufficient_scope', 'no_notices_url'],
    }),
    post: ofAccount({
      operationId: 'rotateNoticesSecret',
      summary: 'Make a new signing secret of the notices',
      description: `Makes a new secret. Previous secrets still sign for 24 h each, at most ten of them; while ten do, the answer is 429. ${secretScope}`,
      success: {
        '200': answer(
          'The new secret.',
          object({ signing_secret: secretText, previous_valid_until: orNull(time()) }),
          { signing_secret: secret, previous_valid_until: at },
        ),
      },
      codes: ['insufficient_scope', 'no_notices_url', 'too_many_requests'],
    }),
  },
  '/notices': {
    put: ofAccount({
      operationId: 'setNoticesUrl',
      summary: 'Set the URL for notices',
      description: `Sets the URL to which the service sends a notice when an endpoint of one of the account’s clients (for the platform: of any client) fails, is suspended or recovers, and when a signing secret is rotated. A new URL replaces the previous one immediately; the signing secret stays. The call counts towards the account’s rate \`names\` if a name is looked up. ${scope}`,
      body: jsonBody(schemaOf(noticesBody), { url: { summary: 'Your receiver', value: { url } } }),
      success: { '200': answer('The URL is set.', registration, example, rateHeaders) },
      codes: [...urlCodes, 'body_too_long', 'unsupported_media_type', 'too_many_requests'],
    }),
    get: ofAccount({
      operationId: 'getNoticesUrl',
      summary: 'Show the URL for notices',
      description: `Shows the URL, and the state of its endpoint. ${scope}`,
      success: { '200': answer('The URL.', registration, { ...example, last_success_at: at }) },
      codes: ['no_notices_url'],
    }),
    delete: ofAccount({
      operationId: 'removeNoticesUrl',
      summary: 'Remove the URL for notices',
      description: `Removes the URL and its signing secrets. Notices that were not delivered yet are cancelled. ${scope}`,
      success: {
        '200': answer('The URL is removed.', object({ removed_url: text(url) }), { removed_url: url }),
      },
      codes: ['no_notices_url'],
    }),
  },
};
