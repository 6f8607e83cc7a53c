import { answer, anyScope, publisherCall, query, rateHeaders, urlCodes } from '../call.js';
import { listOf, object, oneOf, text, whole } from '../schema.js';
import { attemptError, urlText } from '../schemas.js';
import { exampleNotification } from '../webhook.js';

const names = ['good', 'wrong_signature', 'old_timestamp', 'twice', 'slow'] as const;
const refused: readonly string[] = ['wrong_signature', 'old_timestamp'];
const sent = exampleNotification('test', 'test');

const check = object({
  name: oneOf(...names),
  sent: listOf(
    object({
      headers: { type: 'object', additionalProperties: text('application/json') },
      body: text(sent.body),
    }),
  ),
  answered: listOf(
    object({ status: whole(204), milliseconds: whole(84), error: attemptError }, 'status', 'error'),
  ),
  verdict: oneOf('ok', 'warn', 'fail'),
  advice: text('Nothing to do.', { description: 'What to change in the receiver.' }),
});

/** The checks of a receiver that passes all of them. */
const allWell = names.map((name) => {
  const answered = refused.includes(name)
    ? { status: 401, milliseconds: 31, error: 'http_status' }
    : { status: 204, milliseconds: 84 };
  const times = name === 'twice' ? 2 : 1;
  return {
    name,
    sent: Array(times).fill(requestOf(name)) as unknown[],
    answered: Array(times).fill(answered) as unknown[],
    ...{ verdict: 'ok', advice: 'Nothing to do.' },
  };
});

function requestOf(name: (typeof names)[number]) {
  const changed = {
    wrong_signature: { 'webhook-signature': 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=' },
    old_timestamp: { 'webhook-timestamp': String(Number(sent.headers['webhook-timestamp']) - 3600) },
  };
  return {
    ...sent,
    headers: { ...sent.headers, ...(name in changed && changed[name as keyof typeof changed]) },
  };
}

export const receiverCalls = {
  '/push_notifications/check': {
    post: publisherCall({
      operationId: 'checkReceiver',
      tag: 'Endpoint',
      summary: 'Check a receiver',
      description: `Sends good and bad test notifications now, to the registered URL or, before there is one, to \`url\`, and shows the receiver’s answer to each. The values of your own request headers are shown as \`***\`. One call in 25 s for each client, which counts as 5 calls that send something; counts towards the account’s rate \`names\`. ${anyScope}`,
      parameters: [query('url', 'Where to send them; only before a URL is registered.', urlText)],
      success: {
        '200': answer(
          'The result of each check.',
          object({ checks: listOf(check) }),
          { checks: allWell },
          rateHeaders,
        ),
      },
      codes: [...urlCodes, 'too_many_requests'],
    }),
  },
};
