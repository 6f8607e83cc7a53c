import { runIdPattern } from '../../../ids.js';
import { runStates } from '../../../redis/runs/runs.js';
import { eventsAtMost } from '../../endpoints/enrichments.js';
import { answer, call, inPath, jsonBody, rateHeaders } from '../call.js';
import { listOf, matching, object, oneOf, ref, time, whole } from '../schema.js';

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
const runIdText = matching(runIdPattern, 'nightly-2026-01-31');
const counts = {
  accepted: whole(5200, { description: 'Accepted events; each is also in one of the other numbers.' }),
  none: whole(180, { description: 'Events that made no notification.' }),
  owed: whole(20),
  delivered: whole(4930),
  superseded: whole(64),
  not_needed: whole(0),
  failed: whole(6),
  cancelled: whole(0),
};
const counted = { accepted: 5200, none: 180, owed: 20, delivered: 4930, superseded: 64 };
const run = {
  ...{ run_id: 'nightly-2026-01-31', state: 'active', first_event_at: '2026-01-31T12:00:00.000Z' },
  ...{ clients: 12, ...counted, not_needed: 0, failed: 6, cancelled: 0, forgotten_segments: 0 },
  progress: [
    {
      ...{ at: '2026-01-31T12:01:00.000Z', accepted: 2400, none: 80, owed: 400, delivered: 1900 },
      ...{ superseded: 20, not_needed: 0, failed: 0, cancelled: 0 },
    },
  ],
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
          ofRun: {
            summary: 'One event of an analysis run',
            value: { ...event, event_id: 'an-7732', run_id: 'nightly-2026-01-31' },
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
        ...(['unknown_client', 'run_cancelled', 'body_too_long', 'unsupported_media_type'] as const),
        'temporarily_unavailable',
      ],
    }),
  },
  '/runs/{run_id}': {
    get: call({
      operationId: 'showRun',
      tag: 'Publishing',
      summary: 'Show an analysis run',
      description:
        'Counts the results of the events that named this run, over all clients. Ask for a token with the scope `enrichments`. The call counts towards the account’s rate `records`.',
      security: { scope: 'enrichments' },
      parameters: [inPath('run_id', 'The run, as its events name it.', runIdText)],
      success: {
        '200': answer(
          'The run.',
          object(
            {
              run_id: runIdText,
              state: oneOf(...runStates),
              state_since: time('When an operator last paused, resumed or cancelled it.'),
              first_event_at: time(),
              clients: whole(12, { description: 'Clients that its events name.' }),
              ...counts,
              forgotten_segments: whole(0, {
                description: 'Segments that an operator made new again after the run was cancelled.',
              }),
              progress: {
                ...listOf(object({ at: time(), ...counts })),
                description:
                  'The same numbers at earlier moments, the oldest first: every minute, later less often.',
              },
            },
            'state_since',
          ),
          run,
          rateHeaders,
        ),
      },
      codes: [
        ...(['invalid_request', 'too_many_parameters', 'invalid_token', 'insufficient_scope'] as const),
        ...(['unknown_run', 'too_many_requests', 'temporarily_unavailable'] as const),
      ],
    }),
  },
};
