/** Describes the notices to receivers of accounts and of the platform, each with an example that verifies. */
import { noticesClient } from '../../ids.js';
import { bodyOf } from '../../notices/notices.js';
import { notificationRequest } from '../../outgoing/notification.js';
import { type NoticeKind, noticeKinds } from '../../redis/records/notices.js';
import { object, oneOf, text, time, whole } from './schema.js';
import { clientTokenText } from './schemas.js';
import { answersToAttempt, exampleSecret, headersOfSent } from './webhook.js';

const at = Date.UTC(2026, 0, 31, 12);
const said: Record<NoticeKind, { reason: string; since: number; attempts_failed: number; owed: number }> = {
  'endpoint.failing': {
    reason: '5 attempts failed in a row',
    since: at - 40_000,
    attempts_failed: 5,
    owed: 12,
  },
  'endpoint.suspended': {
    reason: 'it answered 410',
    since: at - 86_400_000,
    attempts_failed: 291,
    owed: 480,
  },
  'endpoint.recovered': {
    reason: 'a probe succeeded',
    since: at - 3_600_000,
    attempts_failed: 17,
    owed: 48,
  },
  'secret.rotated': { reason: 'the signing secret was rotated', since: at, attempts_failed: 0, owed: 0 },
};

const about: Record<NoticeKind, { name: string; summary: string; description: string }> = {
  'endpoint.failing': {
    name: 'receiveEndpointFailing',
    summary: 'An endpoint is failing',
    description: 'Several attempts in a row have failed. From now on the endpoint gets one probe at a time.',
  },
  'endpoint.suspended': {
    name: 'receiveEndpointSuspended',
    summary: 'An endpoint is suspended',
    description: 'The endpoint answered 410, or has failed for days. Nothing is sent until it is resumed.',
  },
  'endpoint.recovered': {
    name: 'receiveEndpointRecovered',
    summary: 'An endpoint accepts notifications again',
    description: 'A probe or a redelivery has succeeded. Owed assets are delivered now.',
  },
  'secret.rotated': {
    name: 'receiveSecretRotated',
    summary: 'A signing secret was rotated',
    description: 'A client has another signing secret. If none of your people rotated it, find out who did.',
  },
};

const notificationId = 'msg_3q2-7wABAgMEBQYHCAkKCw';

/** Returns a notice as it is sent at 2026-01-31T12:00:00Z. */
export function exampleNotice(kind: NoticeKind) {
  const accountId = 'acc_7Qd2mVx0';
  const body = bodyOf({ kind, at, ...said[kind] }, { accountId, clientToken: 'SITE0042', ...said[kind] });
  const notification = {
    notificationId,
    clientToken: noticesClient(accountId),
    platformId: 'SITE0042',
    body,
  };
  return notificationRequest(notification, [exampleSecret], at);
}

export const noticeWebhooks = Object.fromEntries(noticeKinds.map((kind) => [kind, { post: received(kind) }]));

function received(kind: NoticeKind) {
  const example = exampleNotice(kind);
  const { name, summary, description } = about[kind];
  return {
    operationId: name,
    tags: ['Notices'],
    summary,
    description: `${description} Sent like a notification to the URL of PUT /notices, with the notices’ own secret. Of several changes that wait, the newest is sent.`,
    security: [],
    parameters: headersOfSent(example.headers, 'notice', {
      description: '`notices:` and the account, or `notices:platform`.',
      schema: text(noticesClient('platform'), { pattern: '^notices:' }),
    }),
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: {
            ...object({
              event: oneOf(kind),
              account_id: text('acc_7Qd2mVx0'),
              client_token: clientTokenText,
              at: time('The time of the change.'),
              reason: text(said[kind].reason, { description: 'For a person.' }),
              since: time('The first failure since the last success; without a failure the same as `at`.'),
              attempts_failed: whole(5, { description: 'Failed attempts since then.' }),
              owed: whole(12, {
                description: 'The owed assets of the client when the notice was made.',
              }),
            }),
            additionalProperties: false,
          },
          examples: { notice: { summary, value: JSON.parse(example.body) as unknown } },
        },
      },
    },
    responses: answersToAttempt,
  };
}
