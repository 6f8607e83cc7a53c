/**
 * The one URL of a client. It is stored in two phases: a script stores it as unanswered; once the caller's 200 is sent
 * it is marked as answered. This distinguishes a call that ended without an answer, whose
 * repeat then gets the 200 that it never saw.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClientToken } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { ignore } from '../connection/unavailable.js';
import { announceChange } from '../owed/owedClients.js';
import { indexClient } from './nameIndex.js';
import type { SecretBox } from './secretBox.js';
import { newSigningSecret, ownerOf } from './secrets.js';

export type Registration = NonNullable<Awaited<ReturnType<typeof getRegistration>>>;

/** A call may answer 200 only if it has run for less than this. */
export const answerWithinMs = 2000;
/** After this time a repeat may take over an unanswered registration: the first call can no longer be running. */
const takeOverAfterMs = answerWithinMs + 500;
const pollMs = 50;

/**
 * Stores the URL if the client has none, and makes the client's signing secret if it has none. While an equal
 * unanswered call may still be running it waits for that call's end, at most 2.5 s.
 * @returns `taken`: the client already has a URL; `stored`: by this call, sent to Redis at `storingSinceMs`; call `markAnswered` with the
 * nonce once the 200 is sent
 * @param given.maySetHeaders request headers that wait for a URL go to this one
 * @param given.owner the account that a client of notices belongs to from now on
 */
export async function register(
  db: Db,
  box: SecretBox,
  clientToken: string,
  url: string,
  { maySetHeaders = false, owner = '' } = {},
) {
  const sealed = box.seal(newSigningSecret(), ownerOf(clientToken, 'current'));
  const nonce = randomUUID();
  await announceChange(db, clientToken);
  for (;;) {
    const storingSinceMs = Date.now();
    const args = [url, nonce, takeOverAfterMs, sealed, maySetHeaders ? '1' : '0', owner];
    const outcome = await runScript<'stored' | 'taken' | 'pending'>(db, 'register', clientToken, args);
    if (outcome === 'stored') {
      await indexClient(db, clientToken, url).catch(ignore);
      return { outcome, nonce, storingSinceMs };
    }
    if (outcome === 'taken') return { outcome };
    await sleep(pollMs);
  }
}

/** Notes that the 200 was sent: from now on a repeat is refused. Changes nothing if another call has taken the registration over. */
export async function markAnswered(db: Db, clientToken: string, nonce: string): Promise<void> {
  await runScript(db, 'markAnswered', clientToken, [nonce]);
}

export async function getRegistration(db: Db, clientToken: string) {
  const record = await db.redis.hgetall(db.client(clientToken).registration);
  if (!record.url) return undefined;
  return {
    clientToken: clientToken as ClientToken,
    url: record.url,
    registeredAtMs: Number(record.registered_at ?? 0),
    /** False while no caller has been answered 200 for it. */
    answered: record.answered === '1',
    isOperators: record.by === 'operator',
  };
}

/**
 * What the caller has seen: the present URL, where it is kept when it goes, the field of the one that is put back, the request that is
 * accepted.
 */
export interface Replacing {
  present: string;
  kept?: { field: string; sealed: string } | undefined;
  restored?: string;
  accepted?: string;
  /** The account that a client of notices belongs to from now on. */
  owner?: string;
}

const argsOf = ({ present, kept, restored = '', accepted = '', owner = '' }: Replacing) => {
  return [present, kept?.field ?? '', kept?.sealed ?? '', restored, accepted, owner];
};

/** Removes the URL; owed assets stay owed. `headers_left_behind`: names. @returns undefined if there was none, or another */
export async function resetRegistration(db: Db, clientToken: string, replacing?: Replacing) {
  type Removed = [url: string, owed: number, left: string[]];
  const args = replacing ? argsOf(replacing) : [];
  const removed = await runScript<Removed | null>(db, 'resetRegistration', clientToken, args);
  if (removed === null) return undefined;
  await indexClient(db, clientToken, '').catch(ignore);
  return { removed_url: removed[0], owed: removed[1], headers_left_behind: removed[2] };
}

/**
 * Replaces the present URL without a gap: its state starts again and all owed assets are due. The caller sets the alarm of catch-up.
 * @returns undefined if nothing is registered, or another URL than the caller has seen; names of the request headers that were left behind
 * with the previous URL, and of those that are back, because they were left behind with this one
 */
export async function changeRegistration(
  db: Db,
  clientToken: string,
  url: string,
  by: 'operator' | 'publisher' = 'operator',
  replacing?: Replacing,
) {
  type Changed = [previous: string, left: string[], back: string[]];
  const args = [url, randomUUID(), by, ...(replacing ? argsOf(replacing) : [])];
  await announceChange(db, clientToken);
  const changed = await runScript<Changed | null>(db, 'changeRegistration', clientToken, args);
  if (changed === null) return undefined;
  await indexClient(db, clientToken, url).catch(ignore);
  const [previous, left, back] = changed;
  return { previous_url: previous || null, url, headers_left_behind: left, headers_back: back };
}
