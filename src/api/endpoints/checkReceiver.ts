import type { Middleware } from 'koa';
import { requestHeaders } from '../../redis/records/requestHeaders.js';
import { createSigningSecret, signingSecrets } from '../../redis/records/signingSecrets.js';
import { urlWithoutQuery } from '../../urlWithoutQuery.js';
import { unavailable } from '../apiError.js';
import { composeSteps, type Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { type Exchange, type Sent, sendChecks } from '../receiverCheck/checks.js';
import { type Judged, judgeRefused, judgeRepeat, judgeSlow, judgeTaken } from '../receiverCheck/verdicts.js';
import { limitAccount } from '../steps/accountRate.js';
import { auditCall } from '../steps/auditCall.js';
import { publisherSteps } from '../steps/publisher.js';
import { limitSends } from '../steps/sendLimit.js';
import { chooseUrl, type TestState } from './testNotification.js';

/** POST /push_notifications/check: sends good and bad notifications and shows the receiver's answers. Changes no state. */
export function checkReceiverEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<TestState>(...publisherSteps(deps.db), ...checkSteps(deps));
}

/** Returns the steps after the caller and the client are known. */
export function checkSteps(deps: ApiDeps): Step<TestState>[] {
  return [
    limitAccount(deps, 'names'),
    chooseUrl(deps),
    limitSends(deps.db, 5),
    auditCall<TestState>(deps, { what: 'check', about: ({ url }) => ({ url: urlWithoutQuery(url) }) }),
    check(deps),
  ];
}

/** A connection without traffic for 60 s is closed (docs/reference/limits.md). */
const answerWithinMs = 50_000;

const check =
  ({ db, secretBox, sender, config, closing }: ApiDeps): Step<TestState> =>
  async (ctx) => {
    const { url, client } = ctx.state;
    const { clientToken } = client;
    await createSigningSecret(db, secretBox, clientToken);
    const secrets = await signingSecrets(db, secretBox, clientToken);
    const own = await requestHeaders(db, secretBox, clientToken);
    const late = AbortSignal.timeout(answerWithinMs);
    const signal = closing === undefined ? late : AbortSignal.any([late, closing]);
    const sent = await sendChecks(sender, { url, clientToken, secrets, own }, signal).catch(
      (err: unknown) => {
        throw signal.aborted ? unavailable() : err;
      },
    );
    if (closing?.aborted) throw unavailable();
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
    ...(status !== undefined && { status }),
    milliseconds: Math.round(milliseconds),
    ...(error !== undefined && { error }),
  })),
  ...judged,
});
