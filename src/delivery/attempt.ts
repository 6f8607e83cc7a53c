import { isNoticesClient } from '../ids.js';
import { notificationRequest } from '../outgoing/notification.js';
import { withoutValues } from '../outgoing/ownHeaders.js';
import type { Place, PostResult } from '../outgoing/post.js';
import type { AttemptRecord, Verdict } from '../redis/owed/settle.js';
import type { Taken } from '../redis/owed/take.js';
import { noticeBody } from '../redis/records/notices.js';
import { decodeRequestHeaders, type RequestHeaders } from '../redis/records/requestHeaders.js';
import { SecretUnreadable } from '../redis/records/secretBox.js';
import { createSigningSecret, decodeSigningSecrets } from '../redis/records/signingSecrets.js';
import type { TracedSpan } from '../tracing.js';
import type { DeliveryDeps, OwnFailureCause } from './deps.js';

/** After a shorter wait for its place, the lease still covers the whole attempt: timeout, look at the resolver, settling. */
const unnoticedWaitMs = 1000;

/** The parts of a notification that a POST needs. */
export interface Attemptable {
  clientToken: string;
  platformId: string;
  notificationId: string;
  /** Its event with the traceparent, if known. */
  event?: { trace?: string };
  /** The event's traceparent, if the caller has only that: the attempt begins a new trace, linked to the event's. */
  linkedTrace?: string;
}

export type Attempted = Answered | OwnFailure;

/** This process could not make the attempt. It counts against no receiver: nothing is settled. */
export interface OwnFailure {
  kind: 'own_failure';
  cause: OwnFailureCause;
  /** Set if the attempt could not begin. */
  err?: unknown;
}

/** The receiver answered, or failed to. */
export interface Answered {
  kind: 'answered';
  verdict: Verdict;
  result: PostResult;
  /** Host and path of the URL. */
  target: string;
}

/**
 * Waits for a connection's place. This time is not the receiver's, so the lease is extended meanwhile.
 * @param extendLease extends the lease of the take; false if the attempt no longer held it
 * @returns undefined if the lease ended while it waited
 */
export async function placeUnderLease(
  { sender, settings }: DeliveryDeps,
  { clientToken }: Attemptable,
  take: Taken,
  extendLease: () => Promise<boolean>,
): Promise<Place | undefined> {
  const askedAt = performance.now();
  const timer = setInterval(() => void extendLease(), settings.leaseMs / 3);
  const place = await sender.place(take.url, clientToken);
  clearInterval(timer);
  const hasWaited = performance.now() - askedAt > unnoticedWaitMs;
  if (!hasWaited || (await extendLease())) return place;
  place.release();
  return undefined;
}

/**
 * Makes one attempt and counts it.
 * @param redeliver sends an ended notification again
 */
export async function makeAttempt(
  deps: DeliveryDeps,
  item: Attemptable,
  take: Taken,
  place: Place,
  redeliver: boolean,
): Promise<Attempted> {
  const { metrics, history } = deps;
  let attempted: Attempted;
  try {
    attempted = await signAndPost(deps, item, take, place, redeliver);
  } catch (err) {
    place.release();
    attempted = {
      kind: 'own_failure',
      cause: err instanceof SecretUnreadable ? 'secrets' : 'unexpected',
      err,
    };
  }
  if (attempted.kind === 'answered') {
    const { result } = attempted;
    metrics.attempted(result, result.milliseconds);
    history.count(item.clientToken, result, result.milliseconds);
  }
  if (attempted.kind === 'own_failure') metrics.ownFailure(attempted.cause);
  return attempted;
}

/**
 * Signs, then POSTs. The registration and its secrets are those of the take.
 * @throws SecretUnreadable, and errors of Redis
 */
async function signAndPost(
  deps: DeliveryDeps,
  item: Attemptable,
  take: Taken,
  place: Place,
  redeliver: boolean,
): Promise<Attempted> {
  const sentAt = Date.now();
  const at = sentAt + deps.db.clockOffsetMs();
  const { secrets, own } = await secretsOf(deps, item, take, at);
  const { clientToken, platformId, notificationId } = item;
  const url = withoutQuery(take.url);
  const body = isNoticesClient(clientToken)
    ? await noticeBody(deps.db, clientToken, notificationId)
    : undefined;
  // Each field is named: a delivery's own `event` is not the `event` of the body.
  const notification = { clientToken, platformId, notificationId, body };
  const request = notificationRequest(notification, secrets, sentAt, own);
  const span = beginSpan(deps, item, url);
  const result = await place.post(request);
  endSpan(span, result);
  if (result.ours !== undefined) return { kind: 'own_failure', cause: result.ours };
  const verdict: Verdict = {
    platformId,
    notificationId,
    taken: take,
    ok: result.ok,
    attempt: recordOf(at, url, result, own),
    redeliver,
    ...(result.retryAfterMs === undefined ? {} : { retryAfterMs: result.retryAfterMs }),
  };
  return { kind: 'answered', verdict, result, target: url.replace(/^https?:\/\//, '') };
}

/** Decrypts what the take has read: the signing secrets, one made if there is none, and the client's own request headers. */
async function secretsOf(
  { db, secretBox }: DeliveryDeps,
  { clientToken }: Attemptable,
  take: Taken,
  atMs: number,
): Promise<{ secrets: string[]; own: RequestHeaders }> {
  const secrets = decodeSigningSecrets(secretBox, take.secrets, atMs);
  const own = decodeRequestHeaders(secretBox, take.secrets);
  if (secrets.length > 0) return { secrets, own };
  return { secrets: [await createSigningSecret(db, secretBox, clientToken)], own };
}

function recordOf(at: number, url: string, result: PostResult, own: RequestHeaders): AttemptRecord {
  return {
    at,
    url,
    milliseconds: Math.round(result.milliseconds),
    ...(result.status === undefined ? {} : { status: result.status }),
    ...(result.error === undefined ? {} : { error: result.error }),
    ...(result.remoteAddress === undefined ? {} : { remote_address: result.remoteAddress }),
    ...(result.responseExcerpt === undefined
      ? {}
      : { response_excerpt: withoutValues(result.responseExcerpt, own) }),
  };
}

/** Begins the span of an attempt: in its event's trace, or, if catch-up makes the attempt, in a new trace with a link to the event's. */
function beginSpan(
  { tracing }: DeliveryDeps,
  { clientToken, notificationId, event, linkedTrace }: Attemptable,
  url: string,
): TracedSpan | undefined {
  return tracing?.begin('POST', {
    kind: 'client',
    parent: event?.trace,
    links: linkedTrace === undefined ? [] : [linkedTrace],
    attributes: {
      'http.request.method': 'POST',
      'url.full': url,
      'server.address': new URL(url).hostname,
      'asset_update.client_token': clientToken,
      'asset_update.notification_id': notificationId,
    },
  });
}

function endSpan(span: TracedSpan | undefined, { status, error, ours }: PostResult): void {
  span?.end(status === undefined ? {} : { 'http.response.status_code': status }, ours ?? error);
}

function withoutQuery(url: string): string {
  const at = url.indexOf('?');
  return at < 0 ? url : url.slice(0, at);
}
