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

/** Made clients for Go (oapi-codegen) lose the choice of a union that has no name. */
export const publication = z
  .xor([enrichmentEvent, batchOf(enrichmentEvent).meta({ id: 'EventBatch' })])
  .meta({ id: 'Publication' });

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

/** What came of an event that was accepted; absent where it was not. */
const outcome = {
  notification: z
    .enum(['queued', 'none'])
    .describe('`queued` is durable: this notification or an equal one will be delivered.')
    .optional(),
  notification_id: notificationIdText.describe('Of `queued`.').optional(),
  held: oneOfMany(['paused', 'suspended'], 'Owed, but not sent until the endpoint is resumed.').optional(),
  reason: oneOfMany(['no_new_segments', 'not_registered', 'silent'], 'Of `none`.').optional(),
};

/** No unions: a client made for Go, Java or PHP reads plain fields, and some fail where an answer fits two choices. */
export const batchResult = z
  .object({
    event_id: z.string().nullable().describe('null where no valid one was given.'),
    ...outcome,
    code: oneOfMany(
      ['unknown_client', 'invalid_event', 'temporarily_unavailable'],
      'Why it was not accepted; absent if it was.',
    ).optional(),
    msg: text('unknown', 'Beside `code`.').optional(),
  })
  .meta({
    id: 'BatchResult',
    description: 'A batch is answered 202 although some of its events were not accepted: check every item.',
  });
export const publicationAnswer = z
  .object({
    event_id: text('an-7731', 'Of one event, as the members below.').optional(),
    ...outcome,
    results: z.array(batchResult).describe('Of a batch, and alone: in the order given.').optional(),
  })
  .meta({
    id: 'PublicationAnswer',
    examples: [
      { event_id: 'an-7731', notification: 'queued', notification_id: 'msg_3q2-7wABAgMEBQYHCAkKCw' },
    ],
  });
