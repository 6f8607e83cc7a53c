import { z } from 'zod';
import { enrichmentEvent, readEnrichmentEvent } from '../../delivery/event.js';
import { eventIdPattern } from '../../ids.js';
import type { EventResult } from '../../metrics.js';
import { withTimeout } from '../../promises.js';
import type { Claim } from '../../redis/owed/claim.js';
import { platformScope } from '../../redis/records/accounts.js';
import type { Traceparent, Tracing } from '../../tracing.js';
import { ApiError, badParameter, toApiError, unavailable } from '../apiError.js';
import { endpoint } from '../endpoint.js';
import { accepted, notAccepted } from '../reference/schemas.js';
import type { ApiContext, ApiDeps } from '../step.js';
import { checked, jsonReader } from '../steps/body.js';
import { bearerToken, requireScope } from '../steps/publisher.js';

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
const readJson = jsonReader(1024 * 1024);
const eventsAtMost = 500;

export const enrichmentsEndpoint = endpoint({
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
  status: 202,
  result: {
    what: 'Accepted. Check every item of a batch: some may not have been accepted.',
    schema: z.union([accepted, z.object({ results: z.array(z.union([accepted, notAccepted])) })]),
  },
  codes: [
    ...(['invalid_token', 'insufficient_scope', 'unknown_client', 'body_too_long'] as const),
    ...(['unsupported_media_type', 'temporarily_unavailable'] as const),
  ],
  answer: async (deps, { ctx }) => {
    requireScope(await deps.findToken(bearerToken(ctx)), platformScope);
    return traced(deps.tracing, ctx, async (trace) => {
      const body = (await readJson(ctx.req)) ?? null;
      const isBatch = typeof body === 'object' && body !== null && 'events' in body;
      return isBatch ? acceptBatch(deps, body, trace) : acceptOne(deps, body, trace);
    });
  },
});

/**
 * Traces work for a request, in the trace of the caller's `traceparent` if there is one. It follows the check of the token:
 * a stranger's traceparent would decide what is sampled. The span has the route and the status, never the query, a header or
 * the body.
 * @param work gets the traceparent of the span; undefined if tracing is off
 */
async function traced<T>(
  tracing: Tracing | undefined,
  ctx: ApiContext,
  work: (trace?: Traceparent) => Promise<T>,
): Promise<T> {
  if (tracing === undefined) return work();
  const given = ctx.req.headers.traceparent;
  const span = tracing.begin('POST /enrichments', {
    kind: 'SERVER',
    parent: typeof given === 'string' ? given : undefined,
    attributes: {
      'http.request.method': 'POST',
      'http.route': '/enrichments',
      'asset_update.request_id': ctx.state.requestId,
    },
  });
  try {
    const answer = await work(span.traceparent);
    span.end({ 'http.response.status_code': ctx.status });
    return answer;
  } catch (err) {
    const { status, code } = toApiError(err) ?? { status: 500, code: 'server_error' };
    // A caller's mistake is no error of this span (OpenTelemetry's conventions for HTTP servers).
    const its = { 'http.response.status_code': status, 'asset_update.code': code };
    span.end(its, status >= 500 ? code : undefined);
    throw err;
  }
}

async function acceptOne(deps: ApiDeps, body: unknown, trace?: Traceparent): Promise<ItemAnswer> {
  const answer = await acceptItem(deps, body, '', trace);
  if (!('code' in answer)) return answer;
  throw answer.code === 'invalid_event' ? badParameter(answer.msg) : new ApiError(answer.code, answer.msg);
}

const batch = z.strictObject({ events: z.array(z.unknown()).min(1).max(eventsAtMost) });

async function acceptBatch(deps: ApiDeps, body: unknown, trace?: Traceparent) {
  const { events } = checked(batch, body);
  let cause: unknown;
  const results = await Promise.all(
    events.map((raw, i) =>
      acceptItem(deps, raw, `events[${i}]`, trace).catch((err: unknown): ItemAnswer => {
        if (toApiError(err)?.status !== 503) throw err;
        cause = err;
        const msg = 'It is unknown whether this event was accepted; send it again';
        return { event_id: givenEventId(raw), code: 'temporarily_unavailable', msg };
      }),
    ),
  );
  // 503 means that no item is known to be accepted; otherwise each item has its own answer.
  if (cause !== undefined && !results.some((item) => 'notification' in item)) throw unavailable(cause);
  return { results };
}

/** Returns the id of an event that is not accepted; null if it has no valid one. */
function givenEventId(raw: unknown): string | null {
  const given = typeof raw === 'object' && raw !== null && 'event_id' in raw ? raw.event_id : undefined;
  return typeof given === 'string' && eventIdPattern.test(given) ? given : null;
}

type ItemAnswer = z.infer<typeof accepted> | z.infer<typeof notAccepted>;

/** The time for all that an answer needs from Redis; then the answer is 503: unknown. */
const answerWithinMs = 1900;

/**
 * Answers for one event, once the decision is durable.
 * @param at the path of the event in the body
 * @param parent the traceparent of the request
 * @throws ApiError 503 if that takes too long
 */
async function acceptItem(
  { accepting, db, metrics, tracing }: ApiDeps,
  raw: unknown,
  at: string,
  parent?: Traceparent,
): Promise<ItemAnswer> {
  const event = readEnrichmentEvent(raw, at);
  if ('problem' in event) {
    metrics.eventAnswered('invalid');
    return { event_id: givenEventId(raw), code: 'invalid_event', msg: event.problem };
  }
  const attributes = {
    'asset_update.client_token': event.clientToken,
    'asset_update.platform_id': event.platformId,
    'asset_update.event_id': event.eventId,
    'asset_update.notification_id': event.notificationId,
  };
  const span = tracing?.begin('accept', { parent, attributes });
  const claiming = accepting.accept({
    ...event,
    acceptedAt: Date.now() + db.clockOffsetMs(),
    ...(span && { trace: span.traceparent }),
  });
  const claim = await withTimeout(claiming, answerWithinMs, () => {
    throw unavailable('no answer in time');
  }).catch((err: unknown) => {
    metrics.eventAnswered('unknown');
    span?.end({}, 'unknown');
    throw err;
  });
  const { result, answer } = presentClaim(claim, event.eventId, event.notificationId);
  metrics.eventAnswered(result);
  span?.end({ 'asset_update.result': result });
  return answer;
}

/** Returns what is counted and what is answered. */
function presentClaim(
  claim: Claim,
  event_id: string,
  notification_id: string,
): { result: EventResult; answer: ItemAnswer } {
  switch (claim.kind) {
    case 'unknown_client': {
      const msg = 'There is no client with this client_token';
      return { result: claim.kind, answer: { event_id, code: claim.kind, msg } };
    }
    case 'none': {
      const { reason } = claim;
      return { result: reason, answer: { event_id, notification: 'none', reason } };
    }
    case 'claimed':
    case 'ended': {
      const result = claim.kind === 'claimed' && !claim.again ? 'queued' : 'repeated';
      return { result, answer: { event_id, notification: 'queued', notification_id, held: claim.held } };
    }
    case 'not_needed':
      throw new Error('a new event cannot be claimed again');
  }
}
