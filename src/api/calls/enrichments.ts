import { z } from 'zod';
import { forgetAsset } from '../../acts/notifications.js';
import { ApiError, badParameter, logUnexpected, toApiError, unavailable } from '../../http/apiError.js';
import { findsAgain, jsonReader } from '../../http/body.js';
import { checked, checkInput, noJson } from '../../http/checked.js';
import type { ApiContext } from '../../http/context.js';
import { integer, notificationIdText, platformIdText } from '../../http/schemas.js';
import { eventIdPattern, newEventId, notificationId } from '../../ids.js';
import type { EventResult } from '../../metrics.js';
import { withTimeout } from '../../promises.js';
import { type ArrivedEvent, type Claim, idOfClaimed } from '../../redis/owed/claim.js';
import { platformScope } from '../../redis/records/accounts.js';
import type { Traceparent } from '../../tracing.js';
import { assetCalls, declareCall } from '../call.js';
import type { ApiDeps } from '../deps.js';
import {
  batchOf,
  type batchResult,
  enrichmentEvent,
  eventExamples,
  publication,
  publicationAnswer,
} from '../reference/event.js';
import { bearerToken, requireScope } from '../steps/publisher.js';

const readJson = jsonReader(1024 * 1024);

export const publishEnrichmentsCall = declareCall({
  route: 'POST /enrichments',
  summary: 'Publish enrichment events',
  description:
    'Accepts one event, or a batch of 1 to 500, in at most 1 MiB. Ask for a token with the scope `enrichments`. A repeat of the same event never makes a second notification.',
  after503: 'send the same event again: that is always safe.',
  security: [{ bearer: ['enrichments'] }],
  body: {
    schema: publication,
    examples: eventExamples,
  },
  status: 202,
  result: {
    what: 'Accepted. Check every item of a batch: some may not have been accepted.',
    schema: publicationAnswer,
  },
  codes: ['insufficient_scope', 'unknown_client'],
  answer: async (deps, { ctx }) => {
    const begun = performance.now();
    const token = bearerToken(ctx);
    requireScope(await deps.findToken(token), platformScope);
    const stands = findsAgain(() => deps.findToken(token));
    const withinMs = answerWithinMs - (performance.now() - begun);
    return traced(deps, ctx, (trace) => accept(deps, ctx, { withinMs, trace, stands }));
  },
});

/** What the request of an event leaves: its traceparent, and the time that Redis may still take. */
interface Left {
  withinMs: number;
  trace: Traceparent | undefined;
  stands(): Promise<void>;
}

async function accept(deps: ApiDeps, { req, state }: ApiContext, left: Left) {
  const body = await readJson(req);
  await left.stands();
  if (body === undefined) throw badParameter(noJson);
  const isBatch = typeof body === 'object' && body !== null && 'events' in body;
  return isBatch ? await acceptBatch(deps, body, left, state.requestId) : await acceptOne(deps, body, left);
}

/**
 * Traces work for a request, if tracing is on, in the trace of the caller's `traceparent` if there is one. It follows the check of
 * the token: a stranger's traceparent would decide what is sampled. The span has the route and the status, never the query, a header
 * or the body.
 * @param work gets the traceparent of the span
 */
async function traced<T>({ tracing }: ApiDeps, ctx: ApiContext, work: (trace?: Traceparent) => Promise<T>) {
  const span = tracing?.begin('POST /enrichments', {
    kind: 'SERVER',
    traces: [ctx.req.headers.traceparent?.toString()],
    attributes: {
      'http.request.method': 'POST',
      'http.route': '/enrichments',
      'asset_update.request_id': ctx.state.requestId,
    },
  });
  try {
    const answer = await work(span?.traceparent);
    span?.end({ 'http.response.status_code': ctx.status });
    return answer;
  } catch (err) {
    const { status, code } = toApiError(err) ?? { status: 500, code: 'server_error' };
    // A caller's mistake is no error of this span (OpenTelemetry's conventions for HTTP servers).
    const attributes = { 'http.response.status_code': status, 'asset_update.code': code };
    span?.end(attributes, status >= 500 ? code : undefined);
    throw err;
  }
}

async function acceptOne(deps: ApiDeps, body: unknown, left: Left): Promise<ItemAnswer> {
  const answer = await acceptItem(deps, body, '', left);
  if (!('code' in answer)) return answer;
  throw answer.code === 'invalid_event' ? badParameter(answer.msg) : new ApiError(answer.code, answer.msg);
}

const batch = batchOf(z.unknown());

async function acceptBatch(deps: ApiDeps, body: unknown, left: Left, request_id: string) {
  const { events } = checked(batch, body);
  let cause: unknown;
  let broken: unknown;
  const results = await Promise.all(
    events.map((raw, i) =>
      acceptItem(deps, raw, `events[${i}]`, left).catch((err: unknown): ItemAnswer => {
        // The keys of one client are broken: its events are not accepted, those of others are.
        if (toApiError(err)?.status === 503) cause = err;
        else if ((err as Error).name === 'ReplyError') broken = err;
        else throw err;
        const msg = 'It is unknown whether this event was accepted; send it again';
        return { event_id: givenEventId(raw), code: 'temporarily_unavailable', msg };
      }),
    ),
  );
  // 503 means that no item is known to be accepted; otherwise each item has its own answer.
  const isAccepted = results.some((item) => 'notification' in item);
  if (cause !== undefined && !isAccepted) throw unavailable(cause);
  if (broken !== undefined && !isAccepted) throw broken;
  if (broken !== undefined) logUnexpected(deps.log, broken, { request_id });
  return { results };
}

/** Returns the id of an event that is not accepted; null if the event has no valid id. */
function givenEventId(raw: unknown): string | null {
  const given = typeof raw === 'object' && raw !== null && 'event_id' in raw ? raw.event_id : undefined;
  return typeof given === 'string' && eventIdPattern.test(given) ? given : null;
}

type Result = z.infer<typeof batchResult>;
type NotAccepted = Required<Pick<Result, 'event_id' | 'code' | 'msg'>>;
type ItemAnswer = Omit<Result, 'code' | 'msg'> | NotAccepted;

/** The time for all that an answer needs from Redis; after that the answer is 503: unknown. */
const answerWithinMs = 1900;

/**
 * Answers for one event, once the decision is durable.
 * @param at the path of the event in the body
 * @throws ApiError 503 if that takes too long
 */
async function acceptItem(
  { hands, db, metrics, tracing }: ApiDeps,
  raw: unknown,
  at: string,
  { withinMs, trace: parent }: Left,
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
  const span = tracing?.begin('accept', { traces: [parent], attributes });
  const acceptedAt = Date.now() + db.clockOffsetMs();
  const claiming = hands.accept({ ...event, acceptedAt, trace: span?.traceparent });
  try {
    const claim = await withTimeout(claiming, withinMs, () => {
      throw unavailable('no answer in time');
    });
    const notificationId = idOfClaimed(event, claim);
    const { result, answer } = presentClaim(claim, event.eventId, notificationId, givenEventId(raw));
    metrics.eventAnswered(result);
    span?.end({ 'asset_update.result': result, 'asset_update.notification_id': notificationId });
    return answer;
  } catch (err) {
    const result = toApiError(err)?.status === 503 ? 'unknown' : 'error';
    metrics.eventAnswered(result);
    span?.end({}, result);
    throw err;
  }
}

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

function presentClaim(
  claim: Claim,
  event_id: string,
  notification_id: string,
  given: string | null,
): { result: EventResult; answer: ItemAnswer } {
  switch (claim.kind) {
    case 'unknown_client': {
      const msg = 'There is no client with this client_token';
      return { result: claim.kind, answer: { event_id: given, code: claim.kind, msg } };
    }
    case 'none': {
      const { reason } = claim;
      return { result: reason, answer: { event_id, notification: 'none', reason } };
    }
    case 'claimed':
    case 'ended': {
      const result = claim.kind === 'claimed' && !claim.again ? 'queued' : 'repeated';
      return { result, answer: { event_id, notification: 'queued', notification_id, held: claim.stopped } };
    }
    case 'not_needed':
      throw new Error('a new event cannot be claimed again');
  }
}

export const [forgetAssetCall, forgetAssetInPathCall] = assetCalls(
  'DELETE',
  'For a video that was removed: forgets its known segments and the last decision, and cancels its notification that waits or has failed, in one step. Its next event is new, also one that was sent before. Records of notifications and entries of the feed end in their own time.',
  {
    summary: 'Forget an asset',
    after503: 'repeat it: a repeat does no harm.',
    act: forgetAsset,
    result: {
      what: 'What was forgotten; 0 segments if the asset was not known.',
      schema: z.object({
        platform_id: platformIdText,
        known_segments: integer(2),
        cancelled: notificationIdText.describe('The notification that was cancelled.').optional(),
      }),
    },
  },
);
