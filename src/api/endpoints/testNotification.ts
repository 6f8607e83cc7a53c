import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { idFromBytes } from '../../ids.js';
import { hidden, notificationRequest } from '../../outgoing/notification.js';
import { originOf } from '../../outgoing/target.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { type RequestHeaders, requestHeaders } from '../../redis/records/requestHeaders.js';
import { createSigningSecret, signingSecrets } from '../../redis/records/signingSecrets.js';
import { badParameter } from '../apiError.js';
import type { Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { clientEndpoint } from '../endpoint.js';
import { whole } from '../reference/schema.js';
import { attemptError, urlText } from '../reference/schemas.js';
import { exampleNotification } from '../reference/webhook.js';
import { limitAccount } from '../steps/accountRate.js';
import { auditCall } from '../steps/auditCall.js';
import { checkUrl, urlCodes } from '../steps/checkUrl.js';
import type { PublisherState } from '../steps/publisher.js';
import { parametersOf, required } from '../steps/readQuery.js';
import { limitSends } from '../steps/sendLimit.js';

/** The sent request, as answered. */
export const sentRequest = z
  .object({ headers: z.record(z.string(), z.string()), body: z.string() })
  .meta({ examples: [exampleNotification('test', 'test')] });
export const answeredRequest = z.object({
  status: whole(204).optional(),
  milliseconds: whole(84),
  error: attemptError.optional(),
});

/** Changes no state. */
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
export const chooseUrl =
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

const sendTest =
  ({ db, secretBox, sender }: ApiDeps): Step<TestState> =>
  async (ctx) => {
    const { client, url, own } = ctx.state;
    const { clientToken } = client;
    await createSigningSecret(db, secretBox, clientToken);
    const secrets = await signingSecrets(db, secretBox, clientToken);
    const request = notificationRequest(
      { notificationId: idFromBytes(randomBytes(16)), clientToken, platformId: 'test', event: 'test' },
      secrets,
      Date.now(),
      own,
    );
    const result = await sender.post({ url, client: clientToken, ...request });
    ctx.body = {
      status: result.status,
      milliseconds: Math.round(result.milliseconds),
      error: result.error,
      request: { ...request, headers: { ...request.headers, ...hidden(own) } },
    };
  };
