/** Announces claims to the index of clients that are owed something, and reads whether catch-up works on them. */
import { Announced } from '../connection/announced.js';
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { addToIndex, dropFromIndex } from './owedIndex.js';

/** After this time an announced claim has happened or never will. */
const unclaimedMs = 600_000;

/** For this long an announced client is known to be in the index: none is removed before `unclaimedMs`. */
const announcedMs = unclaimedMs / 2;

/** Clients whose claims this process has announced. */
const announced = new Announced(announcedMs);

/**
 * Announces claims. It is written before the claim itself, so that no owed client is ever missing from the index. A
 * recently announced client is not written again. @returns undefined if nothing needs to be written
 */
export function announceClaims(db: Db, clientTokens: Iterable<string>): Promise<void> | undefined {
  // Unlike the machine's clock, this one is never set back.
  const at = performance.now() + db.clockOffsetMs();
  const missing = new Set<string>();
  for (const clientToken of clientTokens) {
    if (announced.isDue(db, clientToken, at)) missing.add(clientToken);
  }
  if (missing.size === 0) return undefined;
  const note = announced.noting(db, at);
  return addToIndex(db, missing).then(() => note(missing));
}

/** Removes a client that does not exist: made-up client tokens are not kept. */
export function forgetAnnouncement(db: Db, clientToken: string): void {
  announced.forget(db, clientToken);
}

/** Removes a client that is owed nothing from the index, unless a claim was announced recently. */
export async function forgetOwedClient(db: Db, clientToken: string): Promise<void> {
  await dropFromIndex(db, clientToken, unclaimedMs);
}

/** Returns whether catch-up must be woken for something due in `inMs`, and if so notes that it will be awake then. */
export async function mustWakeCatchUp(db: Db, clientToken: string, inMs: number): Promise<boolean> {
  return (await runScript(db, 'setAlarm', clientToken, [Math.max(0, Math.round(inMs))])) === 1;
}

/** Undoes that note after a failed wake-up, so that the next one is sent. */
export async function forgetWakeUp(db: Db, clientToken: string): Promise<void> {
  await db.redis.hdel(db.client(clientToken).endpoint, 'catch_up_until');
}
