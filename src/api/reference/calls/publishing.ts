import { eventsAtMost } from '../../endpoints/enrichments.js';
import { answer, call, jsonBody } from '../call.js';
import { listOf, object, ref } from '../schema.js';

const event = {
  event_id: 'an-7731',
  client_token: 'SITE0042',
  platform_id: 'vid-9',
  segments: ['iab:17', 'mood:calm'],
};
const accepted = {
  event_id: 'an-7731',
  notification: 'queued',
  notification_id: 'msg_3q2-7wABAgMEBQYHCAkKCw',
};
const batch = {
  ...object({ events: { ...listOf(ref('EnrichmentEvent')), minItems: 1, maxItems: eventsAtMost } }),
  additionalProperties: false,
};

export const publishingCalls = {
  '/enrichments': {
    post: call({
      operationId: 'publishEnrichments',
      tag: 'Publishing',
      summary: 'Publish enrichment events',
      description:
        'Accepts one event, or a batch of 1 to 500, in at most 1 MiB. Ask for a token with the scope `enrichments`. A repeat of the same event never makes a second notification: after 503 or no answer send the same event again.',
      security: { scope: 'enrichments' },
      body: jsonBody(
        { oneOf: [ref('EnrichmentEvent'), batch] },
        {
          one: { summary: 'One event', value: event },
          several: {
            summary: 'Several, one from a re-enriched catalogue',
            value: {
              events: [
                event,
                {
                  client_token: 'SITE0042',
                  platform_id: 'vid-10',
                  segments: ['iab:9'],
                  priority: 'backfill',
                },
              ],
            },
          },
          silent: { summary: 'Recorded without a notification', value: { ...event, notify: false } },
        },
      ),
      success: {
        '202': answer(
          'Accepted. Check every item of a batch: some may not have been accepted.',
          {
            oneOf: [
              ref('Accepted'),
              object({ results: listOf({ oneOf: [ref('Accepted'), ref('NotAccepted')] }) }),
            ],
          },
          accepted,
        ),
      },
      codes: [
        ...(['invalid_request', 'too_many_parameters', 'invalid_token', 'insufficient_scope'] as const),
        ...(['unknown_client', 'body_too_long', 'unsupported_media_type'] as const),
        'temporarily_unavailable',
      ],
    }),
  },
};
