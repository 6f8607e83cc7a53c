import type { readEnrichmentEvent } from '../../delivery/event.js';
import type { EventResult } from '../../metrics.js';
import type { Claim, Held } from '../../redis/owed/claim.js';
import type { SpanAttributes } from '../../tracing.js';
import { withTimeout } from '../../withTimeout.js';
import { unavailable } from '../apiError.js';
import type { ApiDeps } from '../deps.js';
import type { ErrorCode } from '../errors.js';

export type ItemAnswer =
  | { event_id: string; notification: 'queued'; notification_id: string; held?: Held }
  | { event_id: string; notification: 'none'; reason: string }
  | { event_id: string | null; code: ErrorCode; msg: string };

type GivenEvent = Exclude<ReturnType<typeof readEnrichmentEvent>, { problem: string }>;

/** The time for all that an answer needs from Redis; then the answer is 503: unknown. */
const answerWithinMs = 1900;

/**
 * Answers once the decision is durable.
 * @param parent the traceparent of the request
 * @throws ApiError 503 if that takes too long
 */
export async function takeInTime(
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
