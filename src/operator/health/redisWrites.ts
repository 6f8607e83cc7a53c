/** Finds out whether Redis accepts writes: a full Redis and a replica still answer every read. */
import { type Db, waitForRedis } from '../../redis/connection/db.js';
import { rangeTags } from '../../redis/connection/slots.js';

/** With this error Redis also refuses a PING, but answers every read. */
const diskFailed = 'MISCONF';
const backWithinMs = 1500;
const refused = 'Events, tokens and registrations are answered 503.';

/** The meaning of Redis' refusals, by their first word. */
const meanings: Record<string, string> = {
  OOM: `Redis is full (maxmemory). ${refused}`,
  [diskFailed]: `Redis refuses writes because its last write to disk failed. ${refused}`,
  READONLY: `Redis refuses writes: it is a replica, and REDIS_URL must lead to the primary. ${refused}`,
  NOREPLICAS: `Redis refuses writes: too few replicas are connected (min-replicas-to-write). ${refused}`,
};

/**
 * Writes the mark, on each primary, that the service writes when it waits for the disk; nothing reads it.
 * @returns `ok`, or why Redis refuses writes
 * @throws if Redis does not answer
 */
export async function askForWrite(db: Db): Promise<string> {
  try {
    const keys = rangeTags().map((tag) => `${db.global.diskMark}:{${tag}}`);
    const marks = db.nodes.primaries().map((node) => keys.find((key) => db.nodes.ownerOf(key) === node));
    await Promise.all(marks.map((mark) => mark !== undefined && db.redis.set(mark, '', 'EX', 60)));
    return 'ok';
  } catch (err) {
    const word = firstWord(err);
    // A user who may only read cannot find out.
    if (word === 'NOPERM') return 'ok';
    const meaning = meanings[word];
    if (meaning === undefined) throw err;
    // ioredis reconnects after a replica has refused.
    if (word === 'READONLY') await waitForRedis(db, backWithinMs);
    return meaning;
  }
}

/** Waits until Redis answers, also if its disk has failed. @throws after `timeoutMs` */
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
