/** One attempt: waits for a connection, signs, POSTs, and makes the verdict. */

import type { DeliverySettings } from '../config.js';
import type { Logger } from '../log.js';
import type { Notices } from '../notices/notices.js';
import { ourFailures } from '../outgoing/failures.js';
import { notificationRequest, withoutValues } from '../outgoing/notification.js';
import type { Place, PostResult, Sender } from '../outgoing/post.js';
import { originOf } from '../outgoing/target.js';
import type { Db } from '../redis/connection/db.js';
import type { AttemptRecord } from '../redis/owed/standing.js';
import type { Settled, Taken, Verdict } from '../redis/owed/turn.js';
import type { AttemptHistory } from '../redis/records/attemptHistory.js';
import { tellStateChange } from '../redis/records/endpoint.js';
import { type SecretBox, SecretUnreadable } from '../redis/records/secretBox.js';
import { type RequestHeaders, readAttemptSecrets } from '../redis/records/secrets.js';
import type { CatchUps } from '../temporal/catchUps.js';
import type { TracedSpan, Tracing } from '../tracing.js';
import { endedState, type Outcome, targetOf } from './outcome.js';

/** The dependencies of deliveries. */
export interface DeliveryDeps {
  db: Db;
  sender: Sender;
  secretBox: SecretBox;
  settings: DeliverySettings;
  log: Logger;
  metrics: DeliveryMetrics;
  /** The counts behind the console's plots. */
  history: Pick<AttemptHistory, 'count'>;
  catchUps: Pick<CatchUps, 'signal' | 'wake'>;
  notices: Pick<Notices, 'tell'>;
  /** Undefined: tracing is off. */
  tracing?: Tracing | undefined;
}

type Priority = Taken['priority'];

/** `secrets`: those of the client cannot be decrypted; `unexpected`: any other error before the POST. */
export const ownFailureCauses = [...ourFailures, 'secrets', 'unexpected'] as const;
export type OwnFailureCause = (typeof ownFailureCauses)[number];

export interface DeliveryMetrics {
  /** Counts an attempt that a receiver answered, or failed to. */
  attempted(result: { ok: boolean; error?: string }, milliseconds: number): void;
  /** Counts an attempt that this process could not make. */
  ownFailure(cause: string): void;
  /** Counts a notification by the state in which it ended. */
  ended(state: string): void;
  /** Times from an event's acceptance to the beginning of its notification's first attempt. */
  firstAttempted(priority: Priority, milliseconds: number): void;
  /** Times from an event's acceptance to its delivery. */
  delivered(priority: Priority, milliseconds: number): void;
  /** Counts a registration by the state that it entered. */
  entered(state: string): void;
}

/** The receiver answered, or failed to. */
export interface Answered {
  kind: 'answered';
  verdict: Verdict;
  result: PostResult;
}

export type Sent =
  | Answered
  /** This process could not make the attempt. Nothing is settled, and no receiver is blamed. */
  | { kind: 'own_failure'; cause: OwnFailureCause; err?: unknown }
  /** The asset was given back while the attempt waited: its client was paused, its URL changed, or its lease has ended. */
  | { kind: 'taken_back' };

/** After a shorter wait for its connection, the lease still covers the whole attempt: timeout, look at the resolver, settling. */
const unnoticedWaitMs = 1000;

/** Makes one attempt and counts it. @param maySend looks again whether it may be sent, and begins its lease anew */
export async function send(
  deps: DeliveryDeps,
  clientToken: string,
  taken: Taken,
  maySend: () => Promise<boolean>,
): Promise<Sent> {
  const { metrics, history } = deps;
  const place = await waitForPlace(deps, clientToken, taken, maySend);
  if (place === undefined) return { kind: 'taken_back' };
  let sent: Sent;
  try {
    sent = await signAndPost(deps, clientToken, taken, place);
  } catch (err) {
    place.release();
    sent = { kind: 'own_failure', cause: err instanceof SecretUnreadable ? 'secrets' : 'unexpected', err };
  }
  if (sent.kind === 'answered') {
    metrics.attempted(sent.result, sent.result.milliseconds);
    history.count(clientToken, sent.result, sent.result.milliseconds);
  }
  if (sent.kind === 'own_failure') metrics.ownFailure(sent.cause);
  return sent;
}

/** Waits for a connection's place. This time is not the receiver's, and what has changed meanwhile counts. */
async function waitForPlace(
  { sender, settings }: DeliveryDeps,
  clientToken: string,
  { url }: Taken,
  maySend: () => Promise<boolean>,
): Promise<Place | undefined> {
  const askedAt = performance.now();
  const waiting = new AbortController();
  const timer = setInterval(
    () => void maySend().then((may) => !may && waiting.abort()),
    settings.leaseMs / 3,
  );
  try {
    const place = await sender.place(url, clientToken, waiting.signal);
    const hasWaited = performance.now() - askedAt > unnoticedWaitMs;
    if (!hasWaited || (await maySend())) return place;
    place.release();
    return undefined;
  } catch (err) {
    if (waiting.signal.aborted) return undefined;
    throw err;
  } finally {
    clearInterval(timer);
  }
}

/** Signs, then POSTs. The registration and its secrets are those of the take. @throws SecretUnreadable, and errors of Redis */
async function signAndPost(
  deps: DeliveryDeps,
  clientToken: string,
  taken: Taken,
  place: Place,
): Promise<Sent> {
  const sentAt = Date.now();
  const at = sentAt + deps.db.clockOffsetMs();
  const { secrets, own } = await readAttemptSecrets(deps.db, deps.secretBox, clientToken, taken.secrets, at);
  const { platformId, notificationId, body } = taken;
  const url = originOf(taken.url);
  const request = notificationRequest(
    { clientToken, platformId, notificationId, body },
    secrets,
    sentAt,
    own,
  );
  const span = beginSpan(deps, clientToken, taken, url);
  const result = await place.post(request);
  const { status, error, ours } = result;
  span?.end(status === undefined ? {} : { 'http.response.status_code': status }, ours ?? error);
  if (ours !== undefined) return { kind: 'own_failure', cause: ours };
  const verdict: Verdict = {
    taken,
    isOk: result.ok,
    attempt: recordOf(at, url, result, own),
    retryAfterMs: result.retryAfterMs,
  };
  return { kind: 'answered', verdict, result };
}

function recordOf(at: number, url: string, result: PostResult, own: RequestHeaders): AttemptRecord {
  const { status, error, milliseconds, remoteAddress, responseExcerpt } = result;
  return {
    at,
    url,
    milliseconds: Math.round(milliseconds),
    status,
    error,
    remote_address: remoteAddress,
    response_excerpt: responseExcerpt === undefined ? undefined : withoutValues(responseExcerpt, own),
  };
}

/** Begins the span of an attempt, in its event's trace. */
function beginSpan(
  { tracing }: DeliveryDeps,
  clientToken: string,
  { notificationId, trace }: Taken,
  url: string,
): TracedSpan | undefined {
  return tracing?.begin('POST', {
    kind: 'client',
    parent: trace,
    attributes: {
      'http.request.method': 'POST',
      'url.scheme': new URL(url).protocol.slice(0, -1),
      'server.address': new URL(url).hostname,
      'asset_update.client_token': clientToken,
      'asset_update.notification_id': notificationId,
    },
  });
}

/** Reports a settled attempt: log, metrics, the change of its endpoint's state. @returns its outcome */
export function conclude(
  deps: DeliveryDeps,
  clientToken: string,
  { verdict: { taken, attempt }, result }: Answered,
  { outcome, inMs, failures, acceptedAt, isFirst, change, state }: Settled,
): Outcome {
  const { log, metrics, notices } = deps;
  const { ok, status, error } = result;
  const milliseconds = Math.round(result.milliseconds);
  const names = { client_token: clientToken, notification_id: taken.notificationId };
  if (!ok) log.info({ ...names, status, error, outcome, failures }, 'attempt failed');
  if (acceptedAt !== undefined) {
    const sinceMs = attempt.at - acceptedAt;
    if (isFirst) metrics.firstAttempted(taken.priority, sinceMs);
    if (outcome === 'delivered') metrics.delivered(taken.priority, sinceMs + milliseconds);
  }
  if (outcome === 'delivered' || outcome === 'failed') metrics.ended(outcome);
  if (change !== undefined) {
    tellStateChange(deps, { clientToken, ...change });
    notices.tell(clientToken);
  }
  switch (outcome) {
    case 'delivered':
    case 'failed':
      return { state: outcome, status, milliseconds };
    case 'gone':
      return { state: endedState(state) };
    case 'retry': {
      const target = targetOf(attempt.url);
      return {
        state: 'waiting',
        reason: 'retry',
        at: Date.now() + (inMs ?? 0),
        failures,
        status,
        error,
        target,
      };
    }
  }
}
