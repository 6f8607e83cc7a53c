import { z } from 'zod';
import { checkInput } from '../checkInput.js';
import { clientTokenPattern, eventIdPattern, newEventId, notificationId } from '../ids.js';
import type { ArrivedEvent } from '../redis/owed/claim.js';

const controlCharacters = /\p{Cc}/u;
const noControl = (s: string) => !controlCharacters.test(s) && s.isWellFormed();

/** Counts code points: a character of two UTF-16 units counts once. */
const plainText = (maxLength: number) =>
  z
    .string()
    .min(1)
    .refine((s) => s.length <= maxLength || (s.length <= 2 * maxLength && [...s].length <= maxLength), {
      message: `must not be longer than ${maxLength} characters`,
      abort: true,
    })
    .refine(noControl, 'must not have control characters')
    // The refinements in JSON Schema's terms, for the API's description.
    .meta({ maxLength, pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$' });

const platformId = plainText(256);

export const isPlatformId = (value: string): boolean => platformId.safeParse(value).success;

/** The schema of an event; the API's description is generated from it. */
export const enrichmentEvent = z
  .strictObject({
    event_id: z
      .string()
      .regex(eventIdPattern, 'must be 1 to 128 of A-Z a-z 0-9 . _ : -')
      .meta({
        description: 'For tracing and safe repeats; made by the service when absent.',
        examples: ['an-7731'],
      })
      .optional(),
    client_token: z
      .string()
      .regex(clientTokenPattern, 'must be 1 to 64 of A-Z a-z 0-9 _ -')
      .meta({ examples: ['SITE0042'] }),
    platform_id: platformId.meta({
      description: 'The asset, as its publisher names it.',
      examples: ['vid-9'],
    }),
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

/**
 * Checks an enrichment event as the platform sends it (contract, section 4).
 * @returns the event with its ids, or its problem, with the path from `at` on
 */
export function readEnrichmentEvent(
  raw: unknown,
  at: string,
): Omit<ArrivedEvent, 'acceptedAt' | 'group'> | { problem: string } {
  const checked = checkInput(enrichmentEvent, raw, at);
  if ('problem' in checked) return checked;
  const { client_token, platform_id, segments, priority = 'live', notify = true } = checked.data;
  const event = {
    clientToken: client_token,
    platformId: platform_id,
    eventId: checked.data.event_id ?? newEventId(),
    segments,
  };
  return { ...event, priority, notify, notificationId: notificationId(event) };
}
