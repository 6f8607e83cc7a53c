import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Receiver } from '../arrivals.js';
import { usualBehaviour } from '../jobs.js';
import { callers, type Load, perSecond } from '../loads.js';
import { latency } from '../measure.js';
import { monotonicMs, readUsages } from '../processUsage.js';
import { type Contestant, type Event, type Running, retryScheduleSeconds } from './contestants.js';
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
    await drain(receiver, warmUp);
  }
  const before = { usages: readUsages(parts.pids()), restarted: parts.restarted };
  const publisher = new Publisher(course, running);
  const begun = monotonicMs();
  const fault = breakHalfway(course, scene, publisher);
  await publisher.publish(course.total === undefined ? measuredMs : Number.POSITIVE_INFINITY);
  await fault;
  const publishedAt = monotonicMs();
  const arrivals = await drain(receiver, publisher);
  const restarted = parts.restarted - before.restarted;
  const usages = restarted > 0 ? [] : Object.entries(readUsages(parts.pids()));

  const known = new Set(publisher.sent.map(({ key }) => key));
  const ours = arrivals.filter(({ key }) => known.has(key));
  const first = new Map(ours.reverse().map(({ key, at }) => [key, at]));
  const acknowledged = publisher.sent.filter(({ answeredAt }) => answeredAt !== undefined);
  const delivered = acknowledged.filter(({ key }) => first.has(key));
  const lastArrival = Math.max(...first.values(), begun);
  const cpuMs = usages.reduce((sum, [name, { cpuMs }]) => sum + cpuMs - (before.usages[name]?.cpuMs ?? 0), 0);
  return {
    /** Of the service and its stores until the last arrival, by delivered event. Absent if a process was started again. */
    cpuMs: restarted > 0 ? undefined : cpuMs / first.size,
    deliveredPerSecond: first.size / ((lastArrival - begun) / 1000),
    /** From sent (or due) to the first arrival. */
    delivery: latency(delivered.map(({ key, at }) => (first.get(key) ?? 0) - at)),
    answer: latency(acknowledged.map(({ at, answeredAt = at }) => answeredAt - at)),
    /** From the last answer to the last arrival. */
    secondsAfter: Math.max(0, lastArrival - publishedAt) / 1000,
    acknowledged: acknowledged.length,
    delivered: delivered.length,
    /** Acknowledged, and not arrived when the retry schedule was over. */
    lost: acknowledged.length - delivered.length,
    twice: ours.length - first.size,
    givenUp: publisher.sent.length - acknowledged.length,
    refusals: publisher.refusals,
    restarted,
  };
}

async function breakHalfway({ fault, total = 0, pace }: Course, scene: Scene, publisher: Publisher) {
  const { contestant, parts, receiver } = scene;
  if (fault === 'receiver') {
    const sixthMs = pace.kind === 'rate' ? (total / pace.requestsPerSecond / 6) * 1000 : 0;
    await sleep(sixthMs);
    receiver.send({ kind: 'behave', behaviour: { ...usualBehaviour, isDown: true } });
    await sleep(4 * sixthMs);
    receiver.send({ kind: 'behave', behaviour: usualBehaviour });
  } else if (fault) {
    while (publisher.settled < total / 2) await sleep(1);
    parts.kill(contestant[fault]);
  }
}

/** An event. `key`: its path at the receiver and its asset; `at`: sent, or at a fixed rate due. */
type Sent = { key: string; at: number; answeredAt?: number | undefined };

/** How long a request is repeated that failed or got 409, 429 or 5xx, and how often. */
const [patienceMs, pauseMs] = [60_000, 250];
let publishers = 0;

class Publisher {
  readonly sent: Sent[] = [];
  readonly refusals: Record<string, number> = {};
  readonly #label = `c${process.pid}-${publishers++}`;
  /** Events that were acknowledged or given up. */
  settled = 0;

  constructor(
    readonly course: Course,
    readonly running: Running,
  ) {}

  /** Publishes until the time or the events end; resolves once each is acknowledged or given up. */
  async publish(durationMs: number): Promise<void> {
    const { pace, total = Number.POSITIVE_INFINITY } = this.course;
    const connections = pace.kind === 'concurrency' ? pace.publishers : 512;
    const pool = new Pool(this.running.baseUrl, { connections, pipelining: 1 });
    const begun = monotonicMs();
    const isOver = (at: number) => at >= begun + durationMs || this.sent.length >= total;
    const answers: Promise<void>[] = [];
    if (pace.kind === 'concurrency') {
      const caller = async () => {
        for (let now = begun; !isOver(now); now = monotonicMs()) await this.#send(pool, now);
      };
      answers.push(...Array.from({ length: connections }, caller));
    } else {
      for (let due = begun; !isOver(due); due += 1000 / pace.requestsPerSecond) {
        for (let waitMs = due - monotonicMs(); waitMs > 0; waitMs = due - monotonicMs()) await sleep(waitMs);
        answers.push(this.#send(pool, due));
      }
    }
    await Promise.all(answers);
    await pool.close();
  }

  async #send(pool: Pool, at: number): Promise<void> {
    const { paths } = this.running;
    const from = this.sent.length;
    const events = Array.from({ length: this.course.batchSize ?? 1 }, (_, i): Event => {
      const id = `${this.#label}-${from + i}`;
      return { id, site: (from + i) % paths.length };
    });
    const sent = events.map(({ site, id }): Sent => ({ key: `${paths[site]} ${id}`, at }));
    this.sent.push(...sent);
    const request = this.running.request(events);
    let refusal = await attempt(pool, request);
    while (refusal !== undefined) {
      this.refusals[refusal] = (this.refusals[refusal] ?? 0) + 1;
      if (/^4(?!09|29)/.test(refusal) || monotonicMs() > at + patienceMs) break;
      await sleep(pauseMs);
      refusal = await attempt(pool, request);
    }
    const answeredAt = refusal === undefined ? monotonicMs() : undefined;
    for (const one of sent) one.answeredAt = answeredAt;
    this.settled += sent.length;
  }
}

/** Sends a request. Returns why it was not acknowledged. */
async function attempt(pool: Pool, request: ReturnType<Running['request']>): Promise<string | undefined> {
  try {
    const { statusCode, body } = await pool.request({ method: 'POST', headersTimeout: 10_000, ...request });
    const text = await body.text();
    if (statusCode >= 300) return String(statusCode);
    return text.includes('"code":"') ? '4xx of an item' : undefined;
  } catch (err) {
    return err instanceof Error && 'code' in err ? String(err.code) : String(err);
  }
}

/** PostgreSQL writes a blank after a colon. */
const arrived = /^(\S+) .*"platform_id": ?"([^"]*)"/;

/** Collects arrivals until every acknowledged event is there and a second passes, or the retry schedule has ended. */
async function drain(receiver: Receiver, publisher: Publisher): Promise<{ key: string; at: number }[]> {
  const end = monotonicMs() + scheduleMs;
  const all: { key: string; at: number }[] = [];
  const missing = new Set(publisher.sent.flatMap(({ key, answeredAt }) => (answeredAt ? [key] : [])));
  let quietSince = monotonicMs();
  while (monotonicMs() < end && (missing.size > 0 || monotonicMs() - quietSince < 1000)) {
    await sleep(200);
    const collected = receiver.next('collected');
    receiver.send({ kind: 'collect' });
    const { assets, at } = (await collected).arrivals;
    if (assets.length > 0) quietSince = monotonicMs();
    assets.forEach((text, i) => {
      const [, path, id] = arrived.exec(text) ?? [];
      missing.delete(`${path} ${id}`);
      all.push({ key: `${path} ${id}`, at: at[i] ?? 0 });
    });
  }
  return all;
}
