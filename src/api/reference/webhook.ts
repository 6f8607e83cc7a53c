/** Describes what a receiver gets: the notification and the notices, each with headers that verify its first example. */
import { z } from 'zod';
import { environmentSchema } from '../../config.js';
import {
  clientTokenText,
  integer,
  matching,
  notificationIdText,
  oneOfMany,
  opened,
  platformIdText,
  text,
  time,
  toJsonSchema,
} from '../../http/schemas.js';
import { noticesClient } from '../../ids.js';
import { changedBody, noticeBody } from '../../notices/notices.js';
import { notificationRequest, userAgent } from '../../outgoing/notification.js';
import { type Notice, noticeKinds } from '../../redis/records/notices.js';
import { span } from '../../web/words.js';
import type { Description } from '../call.js';
import { parameter, requestBody } from './describe.js';

const retries = environmentSchema.shape.RETRY_SCHEDULE_SECONDS.parse(undefined).map((s) => span(s * 1000));
export const retriesInWords = `${retries.slice(0, -1).join(', ')}, then every ${retries.at(-1)}`;

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

interface Webhook extends Pick<Description, 'summary' | 'description'> {
  operationId: string;
  schema: z.ZodType;
  /** JSON by what it shows. */
  bodies: Record<string, string>;
}

function webhook({ operationId, summary, description, schema, bodies }: Webhook) {
  const isNotice = operationId !== 'receiveAssetUpdate';
  const to = isNotice ? noticesClient(accountId) : clientToken;
  const [body] = Object.values(bodies);
  const { headers } = notificationRequest(
    { notificationId, clientToken: to, platformId: '', body },
    [exampleSecret],
    at,
  );
  const sent: Record<string, z.ZodType> = {
    'webhook-id': notificationIdText.describe('The same on every attempt.'),
    'webhook-timestamp': matching(/^[0-9]+$/, '1769860800', 'The Unix time of this attempt, s.'),
    'webhook-signature': matching(
      /^v1,[A-Za-z0-9+/]+=*( v1,[A-Za-z0-9+/]+=*)*$/,
      'v1,kQ0Cj1u4=',
      '`v1,` and a base64 HMAC-SHA256 of `<id>.<timestamp>.<body>`; one for each valid secret, separated by spaces.',
    ),
    'webhook-client-token': isNotice
      ? matching(/^notices:/, to, '`notices:` and the account, or `notices:platform`.')
      : clientTokenText.describe('The client that it is about.'),
    'webhook-updated-at': text(
      '1769860800000',
      'When this notification’s own update was claimed, unix ms, with three decimals where two fall in one ms. Not signed.',
    ),
    'webhook-attempt': text(
      '1',
      'The attempts of this notification that have failed, and this one. Not signed.',
    ),
    'user-agent': text(userAgent, 'The product and its version.'),
  };
  const examples = Object.entries(bodies).map(([shown, json]) => [shown, JSON.parse(json)]);
  return {
    post: {
      operationId,
      tags: ['Webhooks'],
      summary,
      description,
      security: [],
      parameters: Object.entries(sent).map(([name, schema]) =>
        parameter(name, 'header', schema, headers[name]),
      ),
      requestBody: opened(requestBody({ schema, examples: Object.fromEntries(examples) })),
      responses: answersToAttempt,
    },
  };
}

const retryAfter = {
  'Retry-After': { description: 'Seconds or a date, at most 24 h away.', schema: toJsonSchema(text('120')) },
};
const notBefore = { description: 'A failed attempt; none follows before Retry-After.', headers: retryAfter };

const answersToAttempt = {
  '2XX': { description: 'Delivered. The status line is enough; at most 16 KiB of a body are read.' },
  '3XX': { description: 'A failed attempt: redirects are never followed.' },
  '410': { description: 'The receiver is gone: the registration is suspended, and everything stays owed.' },
  '429': notBefore,
  '503': notBefore,
  default: {
    description: `A failed attempt, like no connection or no answer within 10 s. Further attempts follow after ${retriesInWords}, for 5 days.`,
  },
};

/** By what it shows; `seconds`: since when. */
const notices: Record<string, [kind: Notice['kind'], reason: string, seconds?: number, attempts?: number]> = {
  'One probe at a time from now on': ['endpoint.failing', '5 attempts failed in a row', 40, 5],
  'Nothing is sent until the endpoint is resumed': ['endpoint.suspended', 'it answered 410', 9],
  'Owed assets are delivered now': ['endpoint.recovered', 'a probe succeeded', 3600, 17],
  'Recover these assets': ['notifications.failed', 'expired', 90],
  'If none of your people rotated it, find out who did': ['secret.rotated', 'the signing secret was rotated'],
  'If nobody of yours asked for it, ask the operator': [
    'registration.changed',
    'an operator has changed the URL',
  ],
};

const noticeBodies = Object.entries(notices).map(([shows, [kind, reason, seconds = 0, attempts = 0]]) => {
  const notice = { kind, at, reason, since: at - seconds * 1000, attempts_failed: attempts };
  return [shows, noticeBody(notice, { accountId, clientToken, owed: 12, failed: 12_000 })];
});

const accountIdText = text(accountId);
const changedAt = time('The time of the change.');

export const webhooks = {
  'asset-update': webhook({
    operationId: 'receiveAssetUpdate',
    summary: 'An asset has new segments',
    description:
      'Sent to the registered URL, at least once for each asset with new segments. Verify the signature (Standard Webhooks 1.0.0) over the bytes as they arrive, keep the `webhook-id`s to see each notification once, answer 2xx within 10 s, then ask the platform for the segments. It also has the headers that the account has set (`PUT /push_notifications/headers`).',
    schema: z.object({
      event: oneOfMany(['asset-update', 'test'], '`test` only if you ask for a test.'),
      platform_id: platformIdText,
    }),
    bodies: {
      'An asset has new segments': exampleNotification('asset-update', 'vid-9').body,
      'A test': exampleNotification('test', 'test').body,
    },
  }),
  notice: webhook({
    operationId: 'receiveNotice',
    summary:
      'An endpoint fails, is suspended or recovers, notifications failed, a secret was rotated, or an operator changed the URL',
    description:
      'Sent like a notification to the URL of PUT /notices, with the notices’ own secret. Of several changes that wait, the newest is sent.',
    schema: z.object({
      event: oneOfMany(noticeKinds),
      account_id: accountIdText,
      client_token: clientTokenText,
      at: changedAt,
      reason: text(
        '5 attempts failed in a row',
        'For a person; `window` or `expired` of `notifications.failed`.',
      ),
      since: time('The first failure since the last success; without a failure the same as `at`.'),
      attempts_failed: integer(5, 'Failed attempts since then; not in `notifications.failed`.').optional(),
      count: integer(
        12_000,
        'Of `notifications.failed`: the failed assets, the first since `since`.',
      ).optional(),
      owed: integer(12, 'The owed assets of the client when the notice was made.'),
    }),
    bodies: Object.fromEntries(noticeBodies),
  }),
  'notices.changed': webhook({
    operationId: 'receiveNoticesChanged',
    summary: 'This URL gets no more notices',
    description:
      'Sent once, without retries, to the URL that PUT /notices replaced or DELETE /notices removed. If none of your people did it, find out who did.',
    schema: z.object({
      event: oneOfMany(['notices.changed']),
      account_id: accountIdText,
      at: changedAt,
      reason: text('the URL for notices was replaced: this one gets no more', 'For a person.'),
    }),
    bodies: { 'This URL gets no more notices': changedBody(accountId, at, 'replaced') },
  }),
};
