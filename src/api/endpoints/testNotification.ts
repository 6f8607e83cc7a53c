import { z } from 'zod';
import { isNoticesClient } from '../../ids.js';
import { originOf } from '../../outgoing/target.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { createSigningSecret, readSecrets } from '../../redis/records/secrets.js';
import { badParameter, unavailable } from '../apiError.js';
import { clientEndpoint, type Description } from '../endpoint.js';
import { answeredRequest, text, urlText } from '../reference/schemas.js';
import { exampleNotification } from '../reference/webhook.js';
import type { ApiDeps } from '../step.js';
import { auditCall } from '../steps/auditCall.js';
import { checkUrl, urlCodes } from '../steps/checkUrl.js';
import { limitSends } from '../steps/limits.js';
import { requireRegistration } from '../steps/publisher.js';
import { judge, presentAnswer, sendChecks, sendTest, type Target } from './receiverChecks.js';

export const sentRequest = z
  .object({ headers: z.record(z.string(), z.string()), body: z.string() })
  .meta({ examples: [exampleNotification('test', 'test')] });
export const testNotificationEndpoint = testEndpoint({
  path: '/push_notifications/test',
  operationId: 'sendTestNotification',
  summary: 'Send a test notification',
  description:
    'Sends `{"event":"test","platform_id":"test"}` now, once, to `url` or else to the registered URL, and answers the result. Once a URL is registered, no other gets your own request headers. The values of your own request headers are shown as `***`. One call in 5 s for each client, bursts of 5.',
  after503: 'it may have been sent; a repeat sends another one, under another id.',
  noun: 'it',
  result: { what: 'The result.', schema: answeredRequest.extend({ request: sentRequest }) },
  what: 'test',
  sends: 1,
  async send({ sender }, target) {
    const { request, result } = await sendTest(sender, target);
    return { ...presentAnswer(result), request };
  },
});

export const oneCheck = z.object({
  name: z.enum(['good', 'wrong_signature', 'old_timestamp', 'twice', 'slow']),
  sent: z.array(sentRequest),
  answered: z.array(answeredRequest),
  verdict: z.enum(['ok', 'warn', 'fail']),
  advice: text('Nothing to do.', 'What to change in the receiver.'),
});

export const checkReceiverEndpoint = testEndpoint({
  path: '/push_notifications/check',
  operationId: 'checkReceiver',
  summary: 'Check a receiver',
  description:
    'Sends good and bad test notifications now, to `url` or else to the registered URL, and shows the receiver’s answer to each. The values of your own request headers are shown as `***`. One call in 25 s for each client, which counts as 5 calls that send something.',
  after503: 'some of them may have been sent; a repeat sends all of them again, under other ids.',
  noun: 'them',
  result: { what: 'The result of each check.', schema: z.object({ checks: z.array(oneCheck) }) },
  what: 'check',
  sends: 5,
  async send({ sender, config, closing }, target) {
    const answered = new AbortController();
    const ends = new Promise<never>((_, reject) => {
      const end = () => reject(unavailable('the process ends'));
      closing?.addEventListener('abort', end, { signal: answered.signal });
    });
    const sent = await Promise.race([sendChecks(sender, target), ends]);
    answered.abort();
    return { checks: judge(sent, (config.ATTEMPT_TIMEOUT_SECONDS * 1000) / 2) };
  },
});

interface TestCall
  extends Pick<Description, 'path' | 'operationId' | 'summary' | 'description' | 'after503' | 'result'> {
  /** In place of what is sent, in the description of the parameter `url`. */
  noun: string;
  /** For the audit. */
  what: string;
  /** How many sends the call counts as. */
  sends: 1 | 5;
  send: (deps: ApiDeps, target: Target) => Promise<unknown>;
}

/** Declares a call that sends tests to a URL and shows the receiver's answers. */
function testEndpoint({ noun, what, sends, send, ...of }: TestCall) {
  return clientEndpoint({
    ...of,
    method: 'post',
    tag: 'Endpoint',
    query: z.object({
      url: urlText.describe(`Where to send ${noun}, if not to the registered URL.`).optional(),
    }),
    codes: urlCodes,
    rate: 'names',
    answer: async (deps, call) => {
      const { db, secretBox } = deps;
      const { clientToken } = call.client;
      const registered = await (isNoticesClient(clientToken)
        ? requireRegistration(db, call.client)
        : getRegistration(db, clientToken));
      const url = call.query.url ?? registered?.url;
      if (url === undefined) throw badParameter('The parameter url is missing, and no url is registered');
      const isOther = url !== registered?.url;
      if (isOther) await checkUrl(deps, url, call.ctx.querystring);
      await limitSends(db, clientToken, sends);
      await auditCall(deps, call, what, { about: { url: originOf(url) } });
      await createSigningSecret(db, secretBox, clientToken);
      const { signing, headers } = await readSecrets(db, secretBox, clientToken);
      // Once there is a registered URL, no other gets the client's request headers: a stolen token could read them there.
      const own = isOther && registered ? {} : headers;
      return send(deps, { url, clientToken, own, secrets: signing });
    },
  });
}
