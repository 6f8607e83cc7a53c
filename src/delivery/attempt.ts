/** One POST of a notification that has been taken, as the verdict that settles it. */
import type { Logger } from '../log.js';
import { notificationRequest } from '../outgoing/notification.js';
import type { Place, PostResult, Sender } from '../outgoing/post.js';
import type { Db } from '../redis/connection/db.js';
import type { AttemptRecord, Verdict } from '../redis/owed/settle.js';
import type { Taken } from '../redis/owed/take.js';
import type { SecretBox } from '../redis/records/secretBox.js';
import { createSigningSecret, decodeSigningSecrets } from '../redis/records/signingSecrets.js';

export interface AttemptDeps {
  db: Db;
  sender: Sender;
  secretBox: SecretBox;
  log: Logger;
}

export interface Attemptable {
  clientToken: string;
  platformId: string;
  notificationId: string;
}

export type Attempted =
  | { kind: 'answered'; verdict: Verdict; result: PostResult; target: string }
  /** It says nothing of the receiver: nothing is settled. */
  | { kind: 'own_failure'; cause: string }
  /** Its lease ended while it waited for a connection. */
  | { kind: 'lost' };

/**
 * Waits for a connection's place, then POSTs. The registration and its secrets are those of the take.
 * @param keep asked every third of a lease while it waits: whether the lease goes on
 */
export async function makeAttempt(
  deps: AttemptDeps,
  item: Attemptable,
  take: Taken,
  redeliver: boolean,
  keep: { everyMs: number; extend(): Promise<boolean> },
): Promise<Attempted> {
  const place = await placeUnderLease(deps.sender, item, take, keep);
  if (place === undefined) return { kind: 'lost' };
  const sentAt = Date.now();
  const at = sentAt + deps.db.clockOffsetMs();
  let secrets = decodeSigningSecrets(deps.secretBox, take.secrets, at);
  if (secrets.length === 0) {
    try {
      secrets = [await createSigningSecret(deps.db, deps.secretBox, item.clientToken)];
    } catch (err) {
      place.release();
      throw err;
    }
  }
  const { clientToken, platformId, notificationId } = item;
  // Named one by one: a delivery's own `event` is not the body's.
  const request = notificationRequest({ clientToken, platformId, notificationId }, secrets, sentAt);
  const result = await place.post(request);
  if (result.ours !== undefined) return { kind: 'own_failure', cause: result.ours };
  const target = withoutQuery(take.url);
  const verdict: Verdict = {
    platformId,
    notificationId,
    taken: take,
    ok: result.ok,
    attempt: recordOf(at, target, result),
    redeliver,
    ...(result.retryAfterMs === undefined ? {} : { retryAfterMs: result.retryAfterMs }),
  };
  return { kind: 'answered', verdict, result, target: target.replace(/^https?:\/\//, '') };
}

/** Waiting is this service's own time: the lease is extended for as long as it takes. */
async function placeUnderLease(
  sender: Sender,
  { clientToken }: Attemptable,
  take: Taken,
  { everyMs, extend }: { everyMs: number; extend(): Promise<boolean> },
): Promise<Place | undefined> {
  let hasWaited = false;
  const timer = setInterval(() => {
    hasWaited = true;
    void extend();
  }, everyMs);
  const place = await sender.place(take.url, clientToken);
  clearInterval(timer);
  // The whole of an attempt's time lies under its lease.
  if (!hasWaited || (await extend())) return place;
  place.release();
  return undefined;
}

function recordOf(at: number, url: string, result: PostResult): AttemptRecord {
  return {
    at,
    url,
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
