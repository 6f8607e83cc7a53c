import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { idFromBytes } from '../../ids.js';
import { hidden, notificationRequest } from '../../outgoing/notification.js';
import { originOf } from '../../outgoing/target.js';
import { getRegistration } from '../../redis/records/registrations.js';
import {
  createSigningSecret,
  type RequestHeaders,
  requestHeaders,
  signingSecrets,
} from '../../redis/records/secrets.js';
import { badParameter, unavailable } from '../apiError.js';
import { clientEndpoint } from '../endpoint.js';
import { attemptError, text, urlText, whole } from '../reference/schemas.js';
import { exampleNotification } from '../reference/webhook.js';
import type { ApiDeps, Step } from '../step.js';
import { auditCall } from '../steps/auditCall.js';
import { checkUrl, urlCodes } from '../steps/checkUrl.js';
import { limitAccount, limitSends } from '../steps/limits.js';
import type { PublisherState } from '../steps/publisher.js';
import { parametersOf, required } from '../steps/query.js';
import { type Checked, judge, sendChecks } from './receiverChecks.js';

export const sentRequest = z
  .object({ headers: z.record(z.string(), z.string()), body: z.string() })
  .meta({ examples: [exampleNotification('test', 'test')] });
export const answeredRequest = z.object({
  status: whole(204).optional(),
  milliseconds: whole(84),
  error: attemptError.optional(),
});

export const testNotificationEndpoint = clientEndpoint<TestState>({
  method: 'post',
  path: '/push_notifications/test',
  operationId: 'sendTestNotification',
  tag: 'Endpoint',
  summary: 'Send a test notification',
  description:
    'Sends `{"event":"test","platform_id":"test"}` now, once, to `url` or else to the registered URL, and answers the result. Once a URL is registered, no other gets your own request headers. The values of your own request headers are shown as `***`. One call in 5 s for each client, bursts of 5.',
  after503: 'it may have been sent; a repeat sends another one, under another id.',
  query: z.object({
    url: urlText.describe('Where to send it, if not to the registered URL.').optional(),
  }),
  answers: { 200: { what: 'The result.', schema: answeredRequest.extend({ request: sentRequest }) } },
  codes: urlCodes,
  rate: 'names',
  steps: (deps) => [
    limitAccount(deps, 'names'),
    chooseUrl(deps),
    limitSends(deps.db),
    auditCall<TestState>(deps, { what: 'test', about: ({ url }) => ({ url: originOf(url) }) }),
    sendTest(deps),
  ],
});

export interface TestState extends PublisherState {
  url: string;
  /** The client's own request headers, where this URL gets them. */
  own: RequestHeaders;
}

/**
 * Takes the parameter `url`, which is checked, or else the registered URL. Once there is a registered one, no other URL gets
 * the client's request headers: a stolen token could read them there.
 */
const chooseUrl =
  (deps: ApiDeps): Step<TestState> =>
  async (ctx, next) => {
    const given = parametersOf(ctx).has('url') ? required(ctx, 'url') : undefined;
    const registered = await getRegistration(deps.db, ctx.state.client.clientToken);
    const url = given?.value ?? registered?.url;
    if (url === undefined) throw badParameter('The parameter url is missing, and no url is registered');
    const isRegistered = url === registered?.url;
    if (given && !isRegistered) await checkUrl(deps, given);
    ctx.state.url = url;
    ctx.state.own =
      isRegistered || registered === undefined
        ? await requestHeaders(deps.db, deps.secretBox, ctx.state.client.clientToken)
        : {};
    await next();
  };

async function targetOf({ db, secretBox }: ApiDeps, { url, own, client }: TestState): Promise<Checked> {
  const { clientToken } = client;
  await createSigningSecret(db, secretBox, clientToken);
  return { url, clientToken, own, secrets: await signingSecrets(db, secretBox, clientToken) };
}

const sendTest =
  (deps: ApiDeps): Step<TestState> =>
  async (ctx) => {
    const { url, clientToken, secrets, own } = await targetOf(deps, ctx.state);
    const request = notificationRequest(
      { notificationId: idFromBytes(randomBytes(16)), clientToken, platformId: 'test', event: 'test' },
      secrets,
      Date.now(),
      own,
    );
    const result = await deps.sender.post({ url, client: clientToken, ...request });
    ctx.body = {
      status: result.status,
      milliseconds: Math.round(result.milliseconds),
      error: result.error,
      request: { ...request, headers: { ...request.headers, ...hidden(own) } },
    };
  };

export const oneCheck = z.object({
  name: z.enum(['good', 'wrong_signature', 'old_timestamp', 'twice', 'slow']),
  sent: z.array(sentRequest),
  answered: z.array(answeredRequest),
  verdict: z.enum(['ok', 'warn', 'fail']),
  advice: text('Nothing to do.', 'What to change in the receiver.'),
});

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
  (deps: ApiDeps): Step<TestState> =>
  async (ctx) => {
    const { config, closing } = deps;
    const late = AbortSignal.timeout(answerWithinMs);
    const signal = closing === undefined ? late : AbortSignal.any([late, closing]);
    const target = await targetOf(deps, ctx.state);
    const sent = await sendChecks(deps.sender, target, signal).catch((err: unknown) => {
      throw signal.aborted ? unavailable('the process ends') : err;
    });
    if (closing?.aborted) throw unavailable('the process ends');
    ctx.body = { checks: judge(sent, (config.ATTEMPT_TIMEOUT_SECONDS * 1000) / 2) };
  };
