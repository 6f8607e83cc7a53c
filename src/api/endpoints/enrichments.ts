import { z } from 'zod';
import { TooBusy } from '../../delivery/accept.js';
import { enrichmentEvent, readEnrichmentEvent } from '../../delivery/event.js';
import { eventIdPattern } from '../../ids.js';
import type { EventResult } from '../../metrics.js';
import { withTimeout } from '../../promises.js';
import { isRedisUnavailable } from '../../redis/connection/unavailable.js';
import type { Claim } from '../../redis/owed/claim.js';
import type { SpanAttributes } from '../../tracing.js';
import { ApiError, badParameter, unavailable } from '../apiError.js';
import { endpoint } from '../endpoint.js';
import { accepted, notAccepted } from '../reference/schemas.js';
import type { ApiDeps, Step } from '../step.js';
import { readJson } from '../steps/json.js';
import { insufficientScope, requireToken, type TokenState } from '../steps/publisher.js';
import { type TraceState, traceRequest } from '../steps/traceRequest.js';

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
const bodyAtMostBytes = 1024 * 1024;
const eventsAtMost = 500;

export const enrichmentsEndpoint = endpoint<EnrichmentState>({
  method: 'post',
  path: '/enrichments',
  operationId: 'publishEnrichments',
  tag: 'Publishing',
  summary: 'Publish enrichment events',
  description:
    'Accepts one event, or a batch of 1 to 500, in at most 1 MiB. Ask for a token with the scope `enrichments`. A repeat of the same event never makes a second notification.',
  after503: 'send the same event again: that is always safe.',
  security: { scope: 'enrichments' },
  body: {
    schema: z.union([
      enrichmentEvent,
      z.strictObject({ events: z.array(enrichmentEvent).min(1).max(eventsAtMost) }),
    ]),
    examples: {
      'One event': example,
      'Several, one from a re-enriched catalogue': { events: [example, reEnriched] },
      'Recorded without a notification': { ...example, notify: false },
    },
  },
  answers: {
    202: {
      what: 'Accepted. Check every item of a batch: some may not have been accepted.',
      schema: z.union([accepted, z.object({ results: z.array(z.union([accepted, notAccepted])) })]),
    },
  },
  codes: [
    ...(['invalid_token', 'insufficient_scope', 'unknown_client', 'body_too_long'] as const),
    ...(['unsupported_media_type', 'temporarily_unavailable'] as const),
  ],
  steps: (deps) => [
    requireToken(deps.db),
    requireEnrichmentsScope,
    // After the token: a stranger's traceparent would decide what is sampled.
    traceRequest(deps.tracing, '/enrichments'),
    readJson(bodyAtMostBytes),
    answerOne(deps),
    answerBatch(deps),
  ],
});

interface EnrichmentState extends TokenState, TraceState {
  json: unknown;
}

const requireEnrichmentsScope: Step<TokenState> = async (ctx, next) => {
  if (!ctx.state.token.scopes.includes('enrichments')) {
    throw insufficientScope('enrichments');
  }
  await next();
};

const answerOne =
  (deps: ApiDeps): Step<EnrichmentState> =>
  async (ctx, next) => {
    const body = bodyOf(ctx.state.json);
    if ('events' in body) return await next();
    const event = readEnrichmentEvent(body, '');
    if ('problem' in event) {
      deps.metrics.eventAnswered('invalid');
      throw badParameter(event.problem);
    }
    const answer = await acceptInTime(deps, event, ctx.state.trace);
    if ('code' in answer) throw new ApiError(answer.code, answer.msg);
    ctx.status = 202;
    ctx.body = answer;
  };

const answerBatch =
  (deps: ApiDeps): Step<EnrichmentState> =>
  async (ctx) => {
    const { events, ...rest } = bodyOf(ctx.state.json);
    const [unknown] = Object.keys(rest);
    if (unknown !== undefined) throw badParameter('body: a batch has no member other than events');
    if (!Array.isArray(events)) throw badParameter('events: must be a list');
    if (events.length === 0) throw badParameter('events: must hold at least one event');
    if (events.length > eventsAtMost) throw badParameter(`events: at most ${eventsAtMost} in one call`);
    let cause: unknown;
    const results = await Promise.all(
      events.map(async (raw, i): Promise<ItemAnswer> => {
        const event = readEnrichmentEvent(raw, `events[${i}]`);
        if ('problem' in event) {
          deps.metrics.eventAnswered('invalid');
          return { event_id: givenEventId(raw), code: 'invalid_event', msg: event.problem };
        }
        try {
          return await acceptInTime(deps, event, ctx.state.trace);
        } catch (err) {
          if (!isUnknown(err)) throw err;
          cause = err;
          return {
            event_id: event.eventId,
            code: 'temporarily_unavailable',
            msg: 'It is unknown whether this event was accepted; send it again',
          };
        }
      }),
    );
    // 503 means that no item is known to be accepted; otherwise each item has its own answer.
    const unavailableItems = results.filter((r) => 'code' in r && r.code === 'temporarily_unavailable');
    if (unavailableItems.length > 0 && !results.some((r) => 'notification' in r)) throw unavailable(cause);
    ctx.status = 202;
    ctx.body = { results };
  };

function bodyOf(body: unknown): Record<string, unknown> {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw badParameter('body: must be an object');
  return body as Record<string, unknown>;
}

/** Returns the id of an event that is not accepted; null if it has no valid one. */
function givenEventId(raw: unknown): string | null {
  const given = typeof raw === 'object' && raw !== null && 'event_id' in raw ? raw.event_id : undefined;
  return typeof given === 'string' && eventIdPattern.test(given) ? given : null;
}

function isUnknown(err: unknown): boolean {
  return isRedisUnavailable(err) || err instanceof TooBusy || (err instanceof ApiError && err.status === 503);
}

type ItemAnswer = z.infer<typeof accepted> | z.infer<typeof notAccepted>;

type GivenEvent = Exclude<ReturnType<typeof readEnrichmentEvent>, { problem: string }>;

/** The time for all that an answer needs from Redis; then the answer is 503: unknown. */
const answerWithinMs = 1900;

/**
 * Answers once the decision is durable.
 * @param parent the traceparent of the request
 * @throws ApiError 503 if that takes too long
 */
export async function acceptInTime(
  { accepting, db, metrics, tracing }: ApiDeps,
  event: GivenEvent,
  parent: string | undefined,
): Promise<ItemAnswer> {
  const span = tracing?.begin('accept', { parent, attributes: attributesOf(event) });
  const claiming = accepting.accept({
    ...event,
    acceptedAt: Date.now() + db.clockOffsetMs(),
    ...(span && { trace: span.traceparent }),
  });
  let claim: Claim;
  try {
    claim = await withTimeout(claiming, answerWithinMs, () => {
      throw unavailable('no answer in time');
    });
  } catch (err) {
    metrics.eventAnswered('unknown');
    span?.end({}, 'unknown');
    throw err;
  }
  const result = resultOf(claim);
  metrics.eventAnswered(result);
  span?.end({ 'asset_update.result': result });
  return answerOf(event, claim);
}

function attributesOf({ clientToken, platformId, eventId, notificationId }: GivenEvent): SpanAttributes {
  return {
    'asset_update.client_token': clientToken,
    'asset_update.platform_id': platformId,
    'asset_update.event_id': eventId,
    'asset_update.notification_id': notificationId,
  };
}

function resultOf(claim: Claim): EventResult {
  switch (claim.kind) {
    case 'none':
      return claim.reason;
    case 'claimed':
      return claim.again ? 'repeated' : 'queued';
    case 'ended':
      return 'repeated';
    case 'unknown_client':
      return claim.kind;
    case 'not_needed':
      return 'no_new_segments';
  }
}

function answerOf(
  { eventId: event_id, notificationId: notification_id }: GivenEvent,
  claim: Claim,
): ItemAnswer {
  switch (claim.kind) {
    case 'unknown_client':
      return { event_id, code: 'unknown_client', msg: 'There is no client with this client_token' };
    case 'none':
      return { event_id, notification: 'none', reason: claim.reason };
    case 'claimed':
    case 'ended':
      return {
        event_id,
        notification: 'queued',
        notification_id,
        held: claim.held,
      };
    case 'not_needed':
      throw new Error('a new event cannot be claimed again');
  }
}
