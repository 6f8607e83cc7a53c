import { z } from 'zod';
import { checkReceiver, sendTest } from '../../acts/receiverChecks.js';
import { answeredRequest, oneOfMany, text, urlText } from '../../http/schemas.js';
import { clientCall } from '../call.js';
import { exampleNotification } from '../reference/webhook.js';
import { urlCodes } from '../steps/checkUrl.js';

export const sentRequest = z
  .object({ headers: z.record(z.string(), z.string()), body: z.string() })
  .meta({ examples: [exampleNotification('test', 'test')] });

export const sendTestNotificationCall = clientCall({
  ...testing('it'),
  act: sendTest,
  route: 'POST /push_notifications/test',
  summary: 'Send a test notification',
  description:
    'Sends `{"event":"test","platform_id":"test"}` now, once, to `url` or else to the registered URL, and answers the result. Your own request headers go to the registered URL; to another only for a caller who may set them. The values of your own request headers are shown as `***`. One call in 5 s for each client, bursts of 8.',
  after503: 'it may have been sent; a repeat sends another one, under another id.',
  result: { what: 'The result.', schema: answeredRequest.extend({ request: sentRequest }) },
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
  act: checkReceiver,
  route: 'POST /push_notifications/check',
  summary: 'Check a receiver',
  description:
    'Sends good and bad test notifications now, to `url` or else to the registered URL, and shows the receiver’s answer to each. The values of your own request headers are shown as `***`. One call in 25 s for each client, which counts as 5 calls that send something.',
  after503: 'some of them may have been sent; a repeat sends all of them again, under other ids.',
  result: { what: 'The result of each check.', schema: z.object({ checks: z.array(oneCheck) }) },
});

/** Declares what both calls share. @param noun what is sent */
function testing(noun: string) {
  const url = urlText.describe(`Where to send ${noun}, if not to the registered URL.`).optional();
  return { query: z.object({ url }), codes: urlCodes, rate: 'names' } as const;
}
