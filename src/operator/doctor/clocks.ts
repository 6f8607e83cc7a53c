/** Measures how far another clock is off ours, as precisely as the round trip allows. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { Redis } from 'ioredis';
import { span } from '../terminal/moment.js';
import { type Finding, fail, ok, warn } from './finding.js';

export interface ClockReading {
  /** The other clock's time, and ours before and after it was read; ms. */
  theirs: number;
  before: number;
  after: number;
}

/** Beyond this, times in logs, the audit and Temporal's UI no longer agree. */
const warnMs = 2000;
/** Receivers refuse a `webhook-timestamp` that is 5 minutes off (Standard Webhooks). */
const failMs = 60_000;

export function clockFinding(check: string, whose: string, { theirs, before, after }: ClockReading): Finding {
  // It was read at some time between the two: only a difference beyond them is certain.
  const offMs = theirs > after ? theirs - after : Math.min(theirs - before, 0);
  const found =
    Math.abs(offMs) < 1
      ? `${whose} clock agrees with this machine's to within ${span(after - before)}.`
      : `${whose} clock is ${span(Math.abs(offMs))} ${offMs > 0 ? 'ahead of' : 'behind'} this machine's.`;
  const todo = 'Synchronise the clock of every machine by NTP (chronyc tracking, timedatectl).';
  if (Math.abs(offMs) >= failMs) return fail(check, found, todo);
  return Math.abs(offMs) >= warnMs ? warn(check, found, todo) : ok(check, found);
}

export async function readRedisClock(redis: Redis): Promise<ClockReading> {
  const before = Date.now();
  const [seconds, microseconds] = await redis.time();
  return { before, theirs: Number(seconds) * 1000 + Number(microseconds) / 1000, after: Date.now() };
}

/**
 * Temporal has no call for its time, but records when a worker asked a task queue for work: this asks an unused queue
 * for activities. @returns undefined if it was not recorded in time
 */
export async function readTemporalClock(
  { connection, workflowService }: Client,
  namespace: string,
  taskQueue: string,
): Promise<ClockReading | undefined> {
  const queue = { namespace, taskQueue: { name: `${taskQueue}-clock` } };
  const identity = `operator-doctor-${process.pid}-${Date.now()}`;
  const done = new AbortController();
  const before = Date.now();
  const asked = connection.withDeadline(before + pollMs, () =>
    connection.withAbortSignal(done.signal, () =>
      workflowService.pollActivityTaskQueue({ ...queue, identity }).catch(() => undefined),
    ),
  );
  try {
    while (Date.now() < before + notedWithinMs) {
      const { pollers } = await workflowService.describeTaskQueue({ ...queue, taskQueueType: 2 });
      const at = pollers?.find((poller) => poller.identity === identity)?.lastAccessTime;
      if (at) {
        return { before, theirs: Number(at.seconds) * 1000 + Number(at.nanos ?? 0) / 1e6, after: Date.now() };
      }
      await sleep(50);
    }
    return undefined;
  } finally {
    done.abort();
    await asked;
  }
}

/** The server refuses a shorter one. */
const pollMs = 5000;
const notedWithinMs = 3000;
