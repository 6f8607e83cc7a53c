import { z } from 'zod';
import { originOf } from '../../outgoing/target.js';
import { createSigningSecret, signingSecrets } from '../../redis/records/signingSecrets.js';
import { unavailable } from '../apiError.js';
import type { Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { clientEndpoint } from '../endpoint.js';
import { type Exchange, type Sent, sendChecks } from '../receiverCheck/checks.js';
import { type Judged, judgeRefused, judgeRepeat, judgeSlow, judgeTaken } from '../receiverCheck/verdicts.js';
import { text } from '../reference/schema.js';
import { urlText } from '../reference/schemas.js';
import { limitAccount } from '../steps/accountRate.js';
import { auditCall } from '../steps/auditCall.js';
import { urlCodes } from '../steps/checkUrl.js';
import { limitSends } from '../steps/sendLimit.js';
import { answeredRequest, chooseUrl, sentRequest, type TestState } from './testNotification.js';

const oneCheck = z.object({
  name: z.enum(['good', 'wrong_signature', 'old_timestamp', 'twice', 'slow']),
  sent: z.array(sentRequest),
  answered: z.array(answeredRequest),
  verdict: z.enum(['ok', 'warn', 'fail']),
  advice: text('Nothing to do.', 'What to change in the receiver.'),
});

/** Changes no state. */
export const checkReceiverEndpoint = clientEndpoint<TestState>({
  method: 'post',
  path: '/push_notifications/check',
  operationId: 'checkReceiver',
  tag: 'Endpoint',
  summary: 'Check a receiver',
  description:
    'Sends good and bad test notifications now, to `url` or else to the registered URL, and shows the receiver’s answer to each. The values of your own request headers are shown as `***`. One call in 25 s for each client, which counts as 5 calls that send something.',
  after503: 'some of them may have been sent; a repeat sends all of them again, under other ids.',
  query: z.object({
    url: urlText.describe('Where to send them, if not to the registered URL.').optional(),
  }),
  answers: {
    200: { what: 'The result of each check.', schema: z.object({ checks: z.array(oneCheck) }) },
  },
  codes: urlCodes,
  rate: 'names',
  steps: (deps) => [
    limitAccount(deps, 'names'),
    chooseUrl(deps),
    limitSends(deps.db, 5),
    auditCall<TestState>(deps, { what: 'check', about: ({ url }) => ({ url: originOf(url) }) }),
    check(deps),
  ],
});

/** A connection without traffic for 60 s is closed (docs/reference/limits.md). */
const answerWithinMs = 50_000;

const check =
  ({ db, secretBox, sender, config, closing }: ApiDeps): Step<TestState> =>
  async (ctx) => {
    const { url, client, own } = ctx.state;
    const { clientToken } = client;
    await createSigningSecret(db, secretBox, clientToken);
    const secrets = await signingSecrets(db, secretBox, clientToken);
    const late = AbortSignal.timeout(answerWithinMs);
    const signal = closing === undefined ? late : AbortSignal.any([late, closing]);
    const sent = await sendChecks(sender, { url, clientToken, secrets, own }, signal).catch(
      (err: unknown) => {
        throw signal.aborted ? unavailable('the process ends') : err;
      },
    );
    if (closing?.aborted) throw unavailable('the process ends');
    ctx.body = { checks: judge(sent, (config.ATTEMPT_TIMEOUT_SECONDS * 1000) / 2) };
  };

function judge(sent: Record<Sent, Exchange>, slowMs: number) {
  const { good, wrong_signature, old_timestamp, twice, slow } = sent;
  return [
    present('good', [good], judgeTaken(good.result, slowMs)),
    present(
      'wrong_signature',
      [wrong_signature],
      judgeRefused(
        wrong_signature.result,
        'Verify webhook-signature with your secret and answer 401 if no signature matches: anybody can send you such a notification.',
      ),
    ),
    present(
      'old_timestamp',
      [old_timestamp],
      judgeRefused(
        old_timestamp.result,
        'Answer 401 to a webhook-timestamp that is more than 5 minutes off your clock: somebody could record a notification and send it again.',
      ),
    ),
    present('twice', [good, twice], judgeRepeat(good.result, twice.result)),
    present('slow', [slow], judgeSlow(good.result, slow.result)),
  ];
}

const present = (name: Sent, exchanges: Exchange[], judged: Judged) => ({
  name,
  sent: exchanges.map(({ request }) => request),
  answered: exchanges.map(({ result: { status, milliseconds, error } }) => ({
    status,
    milliseconds: Math.round(milliseconds),
    error,
  })),
  ...judged,
});
