import { z } from 'zod';
import { checkReceiver, presentAnswer, sendTest, type Target, targetOf } from '../../acts/receiverChecks.js';
import { requireRegistration, type Subject } from '../../acts/subjects.js';
import { badParameter, unavailable } from '../../http/apiError.js';
import { answeredRequest, oneOfMany, text, urlText } from '../../http/schemas.js';
import { isNoticesClient } from '../../ids.js';
import { originOf } from '../../outgoing/target.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { clientCall, type TokenRequest } from '../call.js';
import type { ApiDeps } from '../deps.js';
import { exampleNotification } from '../reference/webhook.js';
import { admitSend } from '../steps/auditCall.js';
import { checkUrl, urlCodes } from '../steps/checkUrl.js';

export const sentRequest = z
  .object({ headers: z.record(z.string(), z.string()), body: z.string() })
  .meta({ examples: [exampleNotification('test', 'test')] });

export const sendTestNotificationCall = clientCall({
  ...testing('it'),
  route: 'POST /push_notifications/test',
  summary: 'Send a test notification',
  description:
    'Sends `{"event":"test","platform_id":"test"}` now, once, to `url` or else to the registered URL, and answers the result. Once a URL is registered, no other gets your own request headers. The values of your own request headers are shown as `***`. One call in 5 s for each client, bursts of 6.',
  after503: 'it may have been sent; a repeat sends another one, under another id.',
  result: { what: 'The result.', schema: answeredRequest.extend({ request: sentRequest }) },
  async answer(deps, request) {
    const sent = await sendTest(deps.sender, await findTarget(deps, request, 'test', 1));
    return { ...presentAnswer(sent.result), request: sent.request };
  },
});

/** Of the five sends `twice` is `good` sent once more, with the same id. */
export const oneCheck = z.object({
  name: oneOfMany(['good', 'wrong_signature', 'old_timestamp', 'twice', 'slow']),
  sent: z.array(sentRequest),
  answered: z.array(answeredRequest),
  verdict: oneOfMany(['ok', 'warn', 'fail']),
  advice: text('Nothing to do.', 'What to change in the receiver.'),
});

export const checkReceiverCall = clientCall({
  ...testing('them'),
  route: 'POST /push_notifications/check',
  summary: 'Check a receiver',
  description:
    'Sends good and bad test notifications now, to `url` or else to the registered URL, and shows the receiver’s answer to each. The values of your own request headers are shown as `***`. One call in 25 s for each client, which counts as 5 calls that send something.',
  after503: 'some of them may have been sent; a repeat sends all of them again, under other ids.',
  result: { what: 'The result of each check.', schema: z.object({ checks: z.array(oneCheck) }) },
  async answer(deps, request) {
    const { sender, config, closing } = deps;
    const target = await findTarget(deps, request, 'check', 5);
    const answered = new AbortController();
    const ends = new Promise<never>((_, reject) => {
      const end = () => reject(unavailable('the process ends'));
      closing?.addEventListener('abort', end, { signal: answered.signal });
    });
    const checking = checkReceiver(sender, target, (config.ATTEMPT_TIMEOUT_SECONDS * 1000) / 2);
    return { checks: await Promise.race([checking, ends]).finally(() => answered.abort()) };
  },
});

/** Declares what both calls share. @param noun what is sent */
function testing(noun: string) {
  const url = urlText.describe(`Where to send ${noun}, if not to the registered URL.`).optional();
  const query = z.object({ url });
  return { query, codes: urlCodes, rate: 'names' } as const;
}

/** Finds where to send, once the call is counted and audited. @param together how many sends the call counts as @throws ApiError */
async function findTarget(
  deps: ApiDeps,
  request: TokenRequest<{ url?: string | undefined }> & { client: Subject },
  what: 'test' | 'check',
  together: 1 | 5,
): Promise<Target> {
  const { db, secretBox } = deps;
  const { clientToken } = request.client;
  const registered = await (isNoticesClient(clientToken)
    ? requireRegistration(db, request.client)
    : getRegistration(db, clientToken));
  const url = request.query.url ?? registered?.url;
  if (url === undefined) throw badParameter('The parameter url is missing, and no url is registered');
  if (url !== registered?.url) await checkUrl(deps, url, request.ctx.querystring);
  await admitSend(deps, request, what, { together, about: { url: originOf(url) } });
  return targetOf(db, secretBox, { url, clientToken, registered: registered?.url });
}
