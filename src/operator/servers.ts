/** What `status` and `doctor` ask Redis and Temporal. */
import type { Client } from '@temporalio/client';
import type { Config } from '../config.js';
import { type Db, waitForRedis } from '../redis/connection/db.js';
import { rangeTags } from '../redis/connection/slots.js';
import { span } from './terminal/words.js';

/** The service gives up on a command after 1 s. */
const slowRedisMs = 500;
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
 * Asks how fast Redis answers and whether it accepts writes: a full Redis and a replica still answer every read. It writes
 * the mark, on each primary, that the service writes when it waits for the disk; nothing reads it.
 * @throws if Redis does not answer
 */
export async function askRedis(db: Db): Promise<{ answerMs: number; slow?: string; refuses?: string }> {
  const begun = performance.now();
  // Not PING, which Redis refuses after a failed write.
  await db.nodes.echo();
  const answerMs = performance.now() - begun;
  const slow = answerMs > slowRedisMs ? { slow: `Redis takes ${span(answerMs)} to answer.` } : {};
  try {
    const keys = rangeTags().map((tag) => `${db.global.diskMark}:{${tag}}`);
    const marks = db.nodes.primaries().map((node) => keys.find((key) => db.nodes.ownerOf(key) === node));
    await Promise.all(marks.map((mark) => mark !== undefined && db.redis.set(mark, '', 'EX', 60)));
    return { answerMs, ...slow };
  } catch (err) {
    const word = firstWord(err);
    // A user who may only read cannot find out.
    if (word === 'NOPERM') return { answerMs, ...slow };
    const meaning = meanings[word];
    if (meaning === undefined) throw err;
    // ioredis reconnects after a replica has refused.
    if (word === 'READONLY') await waitForRedis(db, backWithinMs);
    return { answerMs, ...slow, refuses: meaning };
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

/** A worker asks again after a minute at most. */
const polledWithinMs = 90_000;

/** Counts the workers that asked for workflow tasks lately. */
export async function countWorkers(
  { workflowService }: Client,
  { TEMPORAL_NAMESPACE, TASK_QUEUE }: Config,
): Promise<number> {
  const { pollers } = await workflowService.describeTaskQueue({
    namespace: TEMPORAL_NAMESPACE,
    taskQueue: { name: TASK_QUEUE },
    taskQueueType: 1,
  });
  const lately = Date.now() - polledWithinMs;
  const polled = (pollers ?? []).filter(
    (poller) => Number(poller.lastAccessTime?.seconds ?? 0) * 1000 > lately,
  );
  return new Set(polled.map((poller) => poller.identity)).size;
}
