import { notificationRequest } from '../src/outgoing/notification.js';
import type { PostResult } from '../src/outgoing/post.js';
import { lostClaims } from '../src/store/lostClaims.js';
import { type AttemptRecord, type Settled, settleAttempt, type Verdict } from '../src/store/settle.js';
import { createSigningSecret, decodeSigningSecrets } from '../src/store/signingSecrets.js';
import { type RefusedReason, type TakeMode, type Taken, takeAttempt } from '../src/store/take.js';
import { untilRedisAnswers } from '../src/store/untilRedisAnswers.js';
import { tellStateChange } from '../src/tellStateChange.js';
import type { ActivityDeps } from './deps.js';

export interface Attemptable {
  clientToken: string;
  platformId: string;
  notificationId: string;
  /** The claim's number where it is known. */
  claim?: number;
}

export type AttemptOutcome =
  | { kind: 'delivered'; status?: number }
  | { kind: 'retry'; inMs: number; failures: number; status?: number; error?: string }
  | { kind: 'failed'; status?: number }
  | { kind: 'gone'; state?: string }
  | { kind: 'reclaim' }
  | { kind: 'refused'; reason: RefusedReason; inMs: number };

/**
 * One attempt: take, POST, settle. The registration, its secrets and its health are looked up anew each time.
 * @throws what Redis throws when it is away before the POST; after it, settling is tried for some seconds and then
 * left to the lease's end, when the notification is sent again
 */
export async function makeAttempt(
  deps: ActivityDeps,
  item: Attemptable,
  mode: TakeMode,
): Promise<AttemptOutcome> {
  const { db, delivery } = deps;
  const take = await takeAttempt(db, {
    clientToken: item.clientToken,
    platformId: item.platformId,
    notificationId: item.notificationId,
    mode,
    leaseMs: delivery.leaseMs,
    maxInFlight: delivery.maxInFlight,
    drainPerSecond: delivery.drainPerSecond,
    ...(item.claim === undefined ? {} : { claim: item.claim }),
  });
  return take.kind === 'taken' ? await attemptTaken(deps, item, take, mode) : take;
}

/** POST and settle what was taken. @throws as {@link makeAttempt} does after the POST */
export async function attemptTaken(
  deps: ActivityDeps,
  item: Attemptable,
  take: Taken,
  mode: TakeMode,
): Promise<AttemptOutcome> {
  const { db } = deps;
  const at = Date.now() + db.clockOffsetMs();
  const result = await post(deps, item, take, at);
  deps.metrics.attempted(result, result.milliseconds);
  const verdict: Verdict = {
    clientToken: item.clientToken,
    platformId: item.platformId,
    notificationId: item.notificationId,
    taken: take,
    ok: result.ok,
    attempt: recordOf(at, take.url, result),
    redeliver: mode === 'redeliver',
    ...(result.retryAfterMs === undefined ? {} : { retryAfterMs: result.retryAfterMs }),
  };
  const settled = await untilRedisAnswers(() => settleAttempt(db, verdict, deps.delivery));
  tell(deps, item, result, settled);
  const status = result.status === undefined ? {} : { status: result.status };
  switch (settled.outcome) {
    case 'delivered':
    case 'failed':
      return { kind: settled.outcome, ...status };
    case 'gone':
      // Redis may have gone back behind this claim while the POST was under way; what arrived needs no other.
      return { kind: !result.ok && (await isClaimLost(deps, item)) ? 'reclaim' : 'gone' };
    case 'retry':
      return {
        kind: 'retry',
        inMs: settled.inMs,
        failures: settled.failures,
        ...status,
        ...(result.error === undefined ? {} : { error: result.error }),
      };
  }
}

async function isClaimLost({ db }: ActivityDeps, item: Attemptable): Promise<boolean> {
  const { platformId, claim } = item;
  return claim !== undefined && (await lostClaims(db, item.clientToken, [{ platformId, claim }])).length > 0;
}

async function post(deps: ActivityDeps, item: Attemptable, take: Taken, at: number): Promise<PostResult> {
  let secrets = decodeSigningSecrets(deps.secretBox, take.secrets, at);
  if (secrets.length === 0) secrets = [await createSigningSecret(deps.db, deps.secretBox, item.clientToken)];
  const request = notificationRequest(item, secrets, Date.now());
  return await deps.sender.post({ url: take.url, client: item.clientToken, ...request });
}

function recordOf(at: number, url: string, result: PostResult): AttemptRecord {
  return {
    at,
    url: withoutQuery(url),
    milliseconds: Math.round(result.milliseconds),
    ...(result.status === undefined ? {} : { status: result.status }),
    ...(result.error === undefined ? {} : { error: result.error }),
    ...(result.remoteAddress === undefined ? {} : { remote_address: result.remoteAddress }),
    ...(result.responseExcerpt === undefined ? {} : { response_excerpt: result.responseExcerpt }),
  };
}

function withoutQuery(url: string): string {
  const at = url.indexOf('?');
  return at < 0 ? url : url.slice(0, at);
}

function tell(deps: ActivityDeps, item: Attemptable, result: PostResult, settled: Settled): void {
  const about = { client_token: item.clientToken, notification_id: item.notificationId };
  if (!result.ok) {
    deps.log.info(
      {
        ...about,
        status: result.status,
        error: result.error,
        outcome: settled.outcome,
        failures: settled.failures,
      },
      'attempt failed',
    );
  }
  if (settled.outcome === 'delivered' || settled.outcome === 'failed') deps.metrics.ended(settled.outcome);
  if (settled.change !== undefined) {
    tellStateChange(deps, { clientToken: item.clientToken, ...settled.change });
  }
}
