/** An enrichment event as the platform sends it, and the answers to it. */
import { z } from 'zod';
import {
  clientTokenText,
  eventIdText,
  notificationIdText,
  oneOfMany,
  plainText,
  platformIdText,
  text,
} from '../../http/schemas.js';

export const enrichmentEvent = z
  .strictObject({
    event_id: eventIdText
      .describe('For tracing and safe repeats; made by the service when absent.')
      .optional(),
    client_token: clientTokenText,
    platform_id: platformIdText.describe('The asset, as its publisher names it.'),
    segments: z
      .array(plainText(128))
      .max(200)
      .meta({ examples: [['iab:17', 'mood:calm']] }),
    priority: z
      .enum(['live', 'backfill'])
      .meta({ default: 'live', description: '`backfill` waits behind live events.' })
      .optional(),
    notify: z
      .boolean()
      .meta({ default: true, description: 'False records the segments without a notification.' })
      .optional(),
  })
  .meta({ id: 'EnrichmentEvent' });

export const batchOf = <Event extends z.ZodType>(event: Event) =>
  z.strictObject({ events: z.array(event).min(1).max(500) });

const example = {
  event_id: 'an-7731',
  client_token: 'SITE0042',
  platform_id: 'vid-9',
  segments: ['iab:17', 'mood:calm'],
};
const reEnriched = {
  client_token: 'SITE0042',
  platform_id: 'vid-10',
  segments: ['iab:9'],
  priority: 'backfill',
};
export const eventExamples = {
  'One event': example,
  'Several, one from a re-enriched catalogue': { events: [example, reEnriched] },
  'Recorded without a notification': { ...example, notify: false },
};

const queued = z.object({
  event_id: text('an-7731'),
  notification: z.literal('queued'),
  notification_id: notificationIdText,
  held: oneOfMany(['paused', 'suspended'], 'Owed, but not sent until the endpoint is resumed.').optional(),
});
const none = z.object({
  event_id: text('an-7731'),
  notification: z.literal('none'),
  reason: oneOfMany(['no_new_segments', 'not_registered', 'silent']),
});
export const accepted = z.union([queued, none]).meta({
  id: 'Accepted',
  description: '`queued` is durable: this notification or an equal one will be delivered.',
});
const itemCode = oneOfMany(['unknown_client', 'invalid_event', 'temporarily_unavailable']);
export const notAccepted = z
  .object({ event_id: z.string().nullable(), code: itemCode, msg: text('unknown') })
  .meta({
    id: 'NotAccepted',
    description:
      'An event of a batch that was not accepted. A batch is answered 202 nevertheless: check every item.',
  });
