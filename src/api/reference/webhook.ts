/** Describes what a receiver gets: the notification and the notices, each with an example that verifies. */
import { z } from 'zod';
import { noticesClient } from '../../ids.js';
import { changedBody, noticeBody } from '../../notices/notices.js';
import { notificationRequest, userAgent } from '../../outgoing/notification.js';
import { type Notice, noticeKinds } from '../../redis/records/notices.js';
import type { Description } from '../endpoint.js';
import { parameter, requestBody } from './describe.js';
import {
  clientTokenText,
  matching,
  notificationIdText,
  platformIdText,
  text,
  time,
  toJsonSchema,
  whole,
} from './schemas.js';

/** The secret that signs the examples; nobody else has it. */
const exampleSecret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const notificationId = 'msg_3q2-7wABAgMEBQYHCAkKCw';
/** 2026-01-31T12:00:00Z */
const at = Date.UTC(2026, 0, 31, 12);
const accountId = 'acc_7Qd2mVx0';
const clientToken = 'SITE0042';

/** Returns a notification as it would be sent at the time of the examples. */
export const exampleNotification = (event: 'asset-update' | 'test', platformId: string) =>
  notificationRequest({ notificationId, clientToken, platformId, event }, [exampleSecret], at);

interface Webhook extends Pick<Description, 'operationId' | 'tag' | 'summary' | 'description'> {
  what: 'notification' | 'notice';
  example: { headers: Record<string, string> };
  /** The schema of the header that names the client. */
  client: z.ZodType;
  body: { schema: z.ZodType; examples: Record<string, string> };
}

const webhook = ({ operationId, tag, summary, description, what, example, client, body }: Webhook) => ({
  post: {
    operationId,
    tags: [tag],
    summary,
    description,
    security: [],
    parameters: Object.entries({
      'webhook-id': notificationIdText.describe(`The ${what}: the same on every attempt.`),
      'webhook-timestamp': matching(/^[0-9]+$/, '1769860800', 'The Unix time of this attempt, s.'),
      'webhook-signature': matching(
        /^v1,[A-Za-z0-9+/]+=*( v1,[A-Za-z0-9+/]+=*)*$/,
        'v1,kQ0Cj1u4=',
        '`v1,` and a base64 HMAC-SHA256 of `<id>.<timestamp>.<body>`; one for each valid secret, separated by spaces.',
      ),
      'webhook-client-token': client,
      'user-agent': text(userAgent, 'The product and its version.'),
    }).map(([name, schema]) => parameter(name, 'header', schema, example.headers[name])),
    requestBody: requestBody({
      schema: body.schema,
      examples: Object.fromEntries(
        Object.entries(body.examples).map(([shown, json]) => [shown, JSON.parse(json)]),
      ),
    }),
    responses: answersToAttempt,
  },
});

const retryAfter = (description: string) => ({
  description: `${description} A failed attempt; with Retry-After (seconds or a date) there is no other attempt to this endpoint before that time, at most 24 h.`,
  headers: { 'Retry-After': { description: 'Seconds or a date.', schema: toJsonSchema(text('120')) } },
});

const answersToAttempt = {
  '2XX': { description: 'Delivered. The headers are enough; at most 16 KiB of a body are read.' },
  '3XX': { description: 'A failed attempt: redirects are never followed.' },
  '410': {
    description: 'The receiver is gone: the registration is suspended, and everything stays owed.',
  },
  '429': retryAfter('Too many requests.'),
  '503': retryAfter('Temporarily unavailable.'),
  default: {
    description:
      'A failed attempt, like no connection or no answer within 10 s. Further attempts follow after 5 s, 30 s, 2 min, 10 min, 30 min, 1 h, 2 h, then every 4 h, for 5 days.',
  },
};

const exampleNotice = (owed: number, notice: Pick<Notice, 'kind' | 'reason' | 'since' | 'attempts_failed'>) =>
  noticeBody({ at, ...notice }, { accountId, clientToken, owed });

const noticeExamples = {
  'Several attempts in a row have failed: one probe at a time from now on': exampleNotice(12, {
    kind: 'endpoint.failing',
    reason: '5 attempts failed in a row',
    since: at - 40_000,
    attempts_failed: 5,
  }),
  'Nothing is sent until the endpoint is resumed': exampleNotice(480, {
    kind: 'endpoint.suspended',
    reason: 'it answered 410',
    since: at - 86_400_000,
    attempts_failed: 291,
  }),
  'A probe or a redelivery has succeeded: owed assets are delivered now': exampleNotice(48, {
    kind: 'endpoint.recovered',
    reason: 'a probe succeeded',
    since: at - 3_600_000,
    attempts_failed: 17,
  }),
  'A client has another signing secret: if none of your people rotated it, find out who did': exampleNotice(
    0,
    {
      kind: 'secret.rotated',
      reason: 'the signing secret was rotated',
      since: at,
      attempts_failed: 0,
    },
  ),
};

const changed = changedBody(accountId, at, 'replaced');

const toAccount = {
  tag: 'Notices',
  what: 'notice',
  client: matching(
    /^notices:/,
    noticesClient('platform'),
    '`notices:` and the account, or `notices:platform`.',
  ),
  example: notificationRequest(
    { notificationId, clientToken: noticesClient(accountId), platformId: clientToken, body: changed },
    [exampleSecret],
    at,
  ),
} as const;

const accountIdText = text(accountId);
const changedAt = time('The time of the change.');

export const webhooks = {
  'asset-update': webhook({
    operationId: 'receiveAssetUpdate',
    tag: 'Notifications',
    summary: 'An asset has new segments',
    description:
      'Sent to the registered URL, at least once for each asset with new segments. Verify the signature (Standard Webhooks 1.0.0) over the bytes as they arrive, keep the `webhook-id`s to see each notification once, answer 2xx within 10 s, then ask the platform for the segments. It also has the headers that the account has set (`PUT /push_notifications/headers`).',
    what: 'notification',
    client: clientTokenText.describe('The client that it is about.'),
    example: exampleNotification('asset-update', 'vid-9'),
    body: {
      schema: z.strictObject({
        event: z.enum(['asset-update', 'test']).describe('`test` only if you ask for a test.'),
        platform_id: platformIdText,
      }),
      examples: {
        'An asset has new segments': exampleNotification('asset-update', 'vid-9').body,
        'A test': exampleNotification('test', 'test').body,
      },
    },
  }),
  notice: webhook({
    ...toAccount,
    operationId: 'receiveNotice',
    summary: 'An endpoint fails, is suspended or recovers, or a signing secret was rotated',
    description:
      'Sent like a notification to the URL of PUT /notices, with the notices’ own secret. Of several changes that wait, the newest is sent.',
    body: {
      schema: z.strictObject({
        event: z.enum(noticeKinds),
        account_id: accountIdText,
        client_token: clientTokenText,
        at: changedAt,
        reason: text('5 attempts failed in a row', 'For a person.'),
        since: time('The first failure since the last success; without a failure the same as `at`.'),
        attempts_failed: whole(5, 'Failed attempts since then.'),
        owed: whole(12, 'The owed assets of the client when the notice was made.'),
      }),
      examples: noticeExamples,
    },
  }),
  'notices.changed': webhook({
    ...toAccount,
    operationId: 'receiveNoticesChanged',
    summary: 'This URL gets no more notices',
    description:
      'Sent once, without retries, to the URL that PUT /notices replaced or DELETE /notices removed. If none of your people did it, find out who did.',
    body: {
      schema: z.strictObject({
        event: z.literal('notices.changed'),
        account_id: accountIdText,
        at: changedAt,
        reason: text('the URL for notices was replaced: this one gets no more', 'For a person.'),
      }),
      examples: { 'This URL gets no more notices': changed },
    },
  }),
};
