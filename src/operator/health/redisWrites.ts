/** Whether Redis takes writes: one that is full, or a replica, answers every read all the same. */
import { type Db, waitForRedis } from '../../redis/connection/db.js';

/** By it Redis refuses a PING too, and answers everything that reads. */
const diskFailed = 'MISCONF';
const backWithinMs = 1500;
const refused = 'Events, tokens and registrations are answered 503.';

/** What Redis' refusals mean, by the word that they begin with. */
const meanings: Record<string, string> = {
  OOM: `Redis is full (maxmemory). ${refused}`,
  [diskFailed]: `Redis takes no writes, as its last write to disk failed. ${refused}`,
  READONLY: `Redis takes no writes: it is a replica, and REDIS_URL has to lead to the primary. ${refused}`,
  NOREPLICAS: `Redis takes no writes: too few replicas are connected (min-replicas-to-write). ${refused}`,
};

/**
 * Writes the mark that the service itself writes when it waits for the disk; nobody reads it.
 * @returns `ok`, or why Redis takes no writes
 * @throws where Redis does not answer
 */
export async function askForWrite(db: Db): Promise<string> {
  try {
    await db.redis.set(db.global.diskMark, Date.now());
    return 'ok';
  } catch (err) {
    const word = firstWord(err);
    // Who may only read cannot ask.
    if (word === 'NOPERM') return 'ok';
    const meaning = meanings[word];
    if (meaning === undefined) throw err;
    // A connection on which a replica has refused is made anew.
    if (word === 'READONLY') await waitForRedis(db, backWithinMs);
    return meaning;
  }
}

/** Waits until Redis answers, be it that its disk has failed. @throws after `timeoutMs` */
export async function waitForReads(db: Db, timeoutMs: number): Promise<void> {
  try {
    await waitForRedis(db, timeoutMs);
  } catch (err) {
    if (!(err instanceof Error) || firstWord(err.cause) !== diskFailed) throw err;
  }
}

function firstWord(err: unknown): string {
  return err instanceof Error ? (err.message.split(' ')[0] ?? '') : '';
}
