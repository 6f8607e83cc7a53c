/** Describes the notices to receivers of accounts and of the platform, each with an example that verifies. */
import { bodyOf, type Notice } from '../../notices/notice.js';
import { webhookRequest } from '../../outgoing/notification.js';
import { type NoticeKind, noticeKinds } from '../../redis/records/owedNotices.js';
import { object, oneOf, text, time, whole } from './schema.js';
import { clientTokenText } from './schemas.js';
import { exampleSecret, headersOfSent, retryAfter } from './webhook.js';

const at = Date.UTC(2026, 0, 31, 12);
const said: Record<NoticeKind, Pick<Notice, 'reason' | 'since' | 'attemptsFailed' | 'owed'>> = {
  'endpoint.failing': {
    reason: '5 attempts failed in a row',
    since: at - 40_000,
    attemptsFailed: 5,
    owed: 12,
  },
  'endpoint.suspended': {
    reason: 'it answered 410',
    since: at - 86_400_000,
    attemptsFailed: 291,
    owed: 480,
  },
  'endpoint.recovered': {
    reason: 'a probe succeeded',
    since: at - 3_600_000,
    attemptsFailed: 17,
    owed: 48,
  },
  'secret.rotated': { reason: 'the signing secret was rotated', since: at, attemptsFailed: 0, owed: 0 },
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

/** Returns a notice as it is sent at 2026-01-31T12:00:00Z. */
export function exampleNotice(kind: NoticeKind) {
  const id = 'ntc_3q2-7wABAgMEBQYHCAkKCw';
  const of = { accountId: 'acc_7Qd2mVx0', clientToken: 'SITE0042' };
  const body = bodyOf({ id, to: 'account', kind, at, ...of, ...said[kind] });
  return webhookRequest({ id, clientToken: of.clientToken, body }, [exampleSecret], at);
}

export const noticeWebhooks = Object.fromEntries(noticeKinds.map((kind) => [kind, { post: received(kind) }]));

function received(kind: NoticeKind) {
  const example = exampleNotice(kind);
  const { name, summary, description } = about[kind];
  return {
    operationId: name,
    tags: ['Notices'],
    summary,
    description: `${description} Sent to the URL of PUT /notices and to that of the platform, at most one of this kind for each client and hour. Signed like a notification, with the notices’ own secret.`,
    security: [],
    parameters: headersOfSent(
      example.headers,
      'notice',
      text('ntc_3q2-7wABAgMEBQYHCAkKCw', { minLength: 1 }),
    ),
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
    responses: {
      '2XX': { description: 'Delivered.' },
      '3XX': { description: 'A failed attempt: redirects are never followed.' },
      '410': { description: 'The receiver is gone: the notice ends as failed.' },
      '429': retryAfter('Too many requests.'),
      '503': retryAfter('Temporarily unavailable.'),
      default: {
        description: 'A failed attempt. Further attempts follow at the times of a notification, for 5 days.',
      },
    },
  };
}
