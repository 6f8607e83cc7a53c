import { setTimeout as sleep } from 'node:timers/promises';
import { callers, type Load, perSecond } from '../loads.js';
import { latency } from '../measure.js';
import { monotonicMs, readUsages } from '../processUsage.js';
import { Publisher, type Receiver, type Running } from '../publisher.js';
import { type Contestant, retryScheduleSeconds } from './contestants.js';
import type { Parts } from './parts.js';

export interface Course extends Load {
  what: string;
  /** Half of the events have been acknowledged when it happens. A receiver is down for the middle two thirds of the time. */
  fault?: 'service' | 'store' | 'receiver';
}

const killed = { pace: callers(64), total: 5000 };

export const courses: readonly Course[] = [
  { name: 'callers-64', what: '64 callers', pace: callers(64) },
  { name: 'callers-256', what: '256 callers', pace: callers(256) },
  { name: 'batches', what: '8 callers, batches of 100', pace: callers(8), batchSize: 100 },
  { name: 'rate-100', what: '100 events/s', pace: perSecond(100) },
  { name: 'rate-400', what: '400 events/s', pace: perSecond(400) },
  { name: 'kill-service', what: '`kill -9` of the service', ...killed, fault: 'service' },
  { name: 'kill-store', what: '`kill -9` of the store', ...killed, fault: 'store' },
  { name: 'down', what: 'receiver down for a minute', pace: perSecond(50), total: 4500, fault: 'receiver' },
];

const [warmUpMs, measuredMs] = [5000, 8000];
/** Each wait may be a tenth longer, and attempts take time. */
const scheduleMs = retryScheduleSeconds.reduce((sum, one) => sum + one, 0) * 1100 + 10_000;

type Scene = { contestant: Contestant; running: Running; parts: Parts; receiver: Receiver };

export type Outcome = Awaited<ReturnType<typeof run>>;

/** Runs one round of a course, and accounts for its events. Times in ms. */
export async function run(course: Course, scene: Scene) {
  const { running, parts, receiver } = scene;
  if (course.total === undefined) {
    const warmUp = new Publisher(course, running);
    await warmUp.publish(warmUpMs);
    await warmUp.drain(receiver, scheduleMs);
  }
  const before = { usages: readUsages(parts.pids()), restarted: parts.restarted };
  const publisher = new Publisher(course, running);
  const begun = monotonicMs();
  const fault = breakHalfway(course, scene, publisher);
  await publisher.publish(course.total === undefined ? measuredMs : undefined);
  await fault;
  const publishedAt = monotonicMs();
  const arrivals = await publisher.drain(receiver, scheduleMs);
  const restarted = parts.restarted - before.restarted;
  const usages = restarted > 0 ? [] : Object.entries(readUsages(parts.pids()));
  const { acknowledged, delivered, arrivedAt, ...counts } = publisher.account(arrivals);
  const lastArrival = Math.max(...arrivedAt, begun);
  const cpuMs = usages.reduce((sum, [name, { cpuMs }]) => sum + cpuMs - (before.usages[name]?.cpuMs ?? 0), 0);
  return {
    /** Of the service and its stores until the last arrival, by delivered event. Absent if a process was started again. */
    cpuMs: restarted > 0 ? undefined : cpuMs / arrivedAt.length,
    deliveredPerSecond: arrivedAt.length / ((lastArrival - begun) / 1000),
    /** From sent (or due) to the first arrival. */
    delivery: latency(delivered.map((one) => one.arrivedAt - one.at)),
    answer: latency(acknowledged.map((one) => one.answeredAt - one.at)),
    /** From the last answer to the last arrival. */
    secondsAfter: Math.max(0, lastArrival - publishedAt) / 1000,
    acknowledged: acknowledged.length,
    delivered: delivered.length,
    ...counts,
    refusals: publisher.refusals,
    restarted,
  };
}

async function breakHalfway({ fault, total = 0, pace }: Course, scene: Scene, publisher: Publisher) {
  const { contestant, parts, receiver } = scene;
  if (fault === 'receiver') {
    const sixthMs = pace.kind === 'rate' ? (total / pace.requestsPerSecond / 6) * 1000 : 0;
    await sleep(sixthMs);
    receiver.send({ kind: 'behave', behaviour: { isDown: true } });
    await sleep(4 * sixthMs);
    receiver.send({ kind: 'behave', behaviour: {} });
  } else if (fault) {
    while (publisher.settled < total / 2) await sleep(1);
    parts.kill(contestant[fault]);
  }
}
