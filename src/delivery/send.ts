/** One attempt: waits for a connection, signs, POSTs, and makes the verdict. */
import type { Logger } from '../log.js';
import type { Metrics, OwnFailureCause } from '../metrics.js';
import type { Notices } from '../notices/notices.js';
import { withoutValues } from '../outgoing/hidden.js';
import { notificationRequest } from '../outgoing/notification.js';
import type { Permit, Sender } from '../outgoing/post.js';
import type { Db } from '../redis/connection/db.js';
import type { Settled, Taken, Verdict } from '../redis/owed/turn.js';
import type { AttemptHistory } from '../redis/records/attemptHistory.js';
import { reportStateChange } from '../redis/records/endpoint.js';
import { type SecretBox, SecretUnreadable } from '../redis/records/secretBox.js';
import { openSecrets } from '../redis/records/secrets.js';
import type { CatchUps } from '../temporal/catchUps.js';
import { isPast } from '../times.js';
import type { Tracing } from '../tracing.js';

export interface SendDeps {
  db: Db;
  sender: Sender;
  secretBox: SecretBox;
  log: Logger;
  metrics: DeliveryMetrics;
  history: Pick<AttemptHistory, 'count'>;
  catchUps: Pick<CatchUps, 'alarm' | 'wake'>;
  notices: Pick<Notices, 'claimSoon'>;
  tracing?: Tracing;
}

export type DeliveryMetrics = Pick<
  Metrics,
  'attempted' | 'ownFailure' | 'ended' | 'firstAttempted' | 'delivered' | 'entered'
>;

/** This process could not make the attempt. Nothing is settled, and no receiver is blamed. */
export interface OwnFailure {
  cause: OwnFailureCause;
  why?: string;
  err?: unknown;
}

/** After such a wait the lease still covers the whole attempt: timeout, look at the resolver, settling. */
const longestWaitMs = 1000;

/**
 * Makes one attempt and counts it.
 * @returns undefined if no connection was free in time: the asset must be taken again, because its client may be paused by then
 */
export async function send(deps: SendDeps, clientToken: string, taken: Taken) {
  let sent: Verdict | OwnFailure;
  // The wait for a connection is not the receiver's time.
  const permit = await deps.sender.permit(taken.url, clientToken, longestWaitMs);
  if (permit === undefined) return undefined;
  try {
    sent = await signAndPost(deps, clientToken, taken, permit);
  } catch (err) {
    permit.release();
    sent = { cause: err instanceof SecretUnreadable ? 'secrets' : 'unexpected', err };
  }
  if ('cause' in sent) deps.metrics.ownFailure(sent.cause);
  return sent;
}

/** Signs, then POSTs. The registration and its secrets are those of the take. @throws SecretUnreadable, and errors of Redis */
async function signAndPost(deps: SendDeps, clientToken: string, taken: Taken, permit: Permit) {
  const sentAt = Date.now();
  const at = sentAt + deps.db.clockOffsetMs();
  const { signing, headers } = openSecrets(deps.secretBox, clientToken, taken.secrets, at);
  // A receiver refuses what is not signed, and would be blamed for it.
  if (signing.length === 0) throw new SecretUnreadable('the client has no signing secret');
  const request = notificationRequest({ ...taken, clientToken }, signing, sentAt, headers);
  const { protocol, hostname, origin } = new URL(taken.url);
  const span = deps.tracing?.begin('POST', {
    kind: 'CLIENT',
    traces: [taken.trace],
    attributes: {
      'http.request.method': 'POST',
      'url.scheme': protocol.slice(0, -1),
      'server.address': hostname,
      'asset_update.client_token': clientToken,
      'asset_update.notification_id': taken.notificationId,
    },
  });
  const result = await permit.post({ ...request, mayBegin: () => !isPast(taken.leaseEnds) });
  const { status, error, detail, ours, milliseconds, remarks } = result;
  span?.end(status === undefined ? {} : { 'http.response.status_code': status }, ours ?? detail ?? error);
  if (ours !== undefined) return { cause: ours, why: result.why };
  deps.metrics.attempted(result, milliseconds);
  deps.history.count(clientToken, result, milliseconds);
  return {
    taken,
    ok: result.ok,
    retryAfterMs: result.retryAfterMs,
    attempt: {
      at,
      url: origin,
      milliseconds,
      status,
      error,
      detail,
      remote_address: result.remoteAddress,
      response_excerpt: result.responseExcerpt && withoutValues(result.responseExcerpt, taken.url, headers),
      remarks,
    },
  };
}

/** Reports a settled attempt: log, metrics, the change of its endpoint's state. */
export function conclude(
  deps: SendDeps,
  clientToken: string,
  { taken, ok, attempt }: Verdict,
  { result, inMs, failures, acceptedAt, isTimed, change }: Settled,
): void {
  const { log, metrics, notices } = deps;
  const { status, error, detail } = attempt;
  const names = { client_token: clientToken, notification_id: taken.notificationId };
  if (!ok)
    log.info(
      { ...names, status, error, detail, outcome: result, failures, retry_in_ms: inMs },
      'attempt failed',
    );
  if (acceptedAt !== undefined) {
    const sinceMs = attempt.at - acceptedAt;
    if (isTimed) metrics.firstAttempted(taken.priority, sinceMs);
    if (result === 'delivered') metrics.delivered(taken.priority, sinceMs + attempt.milliseconds);
  }
  if (result === 'delivered' || result === 'failed') metrics.ended(result);
  if (change !== undefined) {
    reportStateChange(deps, { clientToken, ...change });
    notices.claimSoon(clientToken);
  }
}
