/** Describes the notification that a receiver gets, with one that verifies. */
import { notificationRequest, userAgent } from '../../outgoing/notification.js';
import { object, oneOf, type Schema, text } from './schema.js';
import { clientTokenText, notificationIdText, platformIdText } from './schemas.js';

/** The secret that signs the examples; nobody else has it. */
export const exampleSecret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

/** Returns a notification as it is sent at 2026-01-31T12:00:00Z. */
export const exampleNotification = (event: 'asset-update' | 'test', platformId: string) =>
  notificationRequest(
    { notificationId: 'msg_3q2-7wABAgMEBQYHCAkKCw', clientToken: 'SITE0042', platformId, event },
    [exampleSecret],
    Date.UTC(2026, 0, 31, 12),
  );

const example = exampleNotification('asset-update', 'vid-9');

/** Describes the headers of a sent request. @param what its name, such as `notification` @param token the header for its client */
export function headersOfSent(
  headers: Record<string, string>,
  what: string,
  token: { description: string; schema: Schema },
): Schema[] {
  const header = (name: string, description: string, schema: Schema): Schema => ({
    name,
    in: 'header',
    required: true,
    description,
    schema,
    example: headers[name],
  });
  return [
    header('webhook-id', `The ${what}: the same on every attempt.`, notificationIdText),
    header(
      'webhook-timestamp',
      'The Unix time of this attempt, s.',
      text('1769860800', { pattern: '^[0-9]+$' }),
    ),
    header(
      'webhook-signature',
      '`v1,` and a base64 HMAC-SHA256 of `<id>.<timestamp>.<body>`; one for each valid secret, separated by spaces.',
      text('v1,kQ0Cj1u4=', { pattern: '^v1,[A-Za-z0-9+/]+=*( v1,[A-Za-z0-9+/]+=*)*$' }),
    ),
    header('webhook-client-token', token.description, token.schema),
    header('user-agent', 'The product and its version.', text(userAgent)),
  ];
}

/** Describes what each answer of a receiver means. */
export const answersToAttempt = {
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

export const webhooks = {
  'asset-update': {
    post: {
      operationId: 'receiveAssetUpdate',
      tags: ['Notifications'],
      summary: 'An asset has new segments',
      description:
        'Sent to the registered URL, at least once for each asset with new segments. Verify the signature (Standard Webhooks 1.0.0) over the bytes as they arrive, keep the `webhook-id`s to see each notification once, answer 2xx within 10 s, then ask the platform for the segments. It also has the headers that the account has set (`PUT /push_notifications/headers`).',
      security: [],
      parameters: headersOfSent(example.headers, 'notification', {
        description: 'The client that it is about.',
        schema: clientTokenText,
      }),
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: {
              ...object({
                event: {
                  ...oneOf('asset-update', 'test'),
                  description: '`test` only if you ask for a test.',
                },
                platform_id: platformIdText,
              }),
              additionalProperties: false,
            },
            examples: {
              assetUpdate: {
                summary: 'An asset has new segments',
                value: JSON.parse(example.body) as unknown,
              },
              test: { summary: 'A test', value: { event: 'test', platform_id: 'test' } },
            },
          },
        },
      },
      responses: answersToAttempt,
    },
  },
};

function retryAfter(description: string): Schema {
  return {
    description: `${description} A failed attempt; with Retry-After (seconds or a date) there is no other attempt to this endpoint before that time, at most 24 h.`,
    headers: { 'Retry-After': { description: 'Seconds or a date.', schema: text('120') } },
  };
}
