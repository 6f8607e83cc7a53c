/**
 * The results of a client's attempts over the last day, in steps of 5 minutes, for the console. Each process
 * counts in its memory and adds the counts to Redis every few seconds, so that an attempt costs Redis nothing. There is
 * a hash for each hour, `{T}:attempts-by:<hour>`, whose fields are `<step>:<what>`: `d` delivered, `f.<error>` failed,
 * `l<i>` attempts that took up to `latencyBoundsMs[i]`.
 */
import type { Logger } from '../../log.js';
import { type Db, nowOf } from '../connection/db.js';
import { countLater } from './minutes.js';

export const stepMs = 5 * 60_000;
const hourMs = 3_600_000;
const hoursRead = 25;
const keptSeconds = 26 * 3600;
/** The last class has the attempts that took longer. */
export const latencyBoundsMs = [10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000];

export interface AttemptStep {
  /** Its beginning, ms. */
  atMs: number;
  delivered: number;
  /** By error class. */
  failed: Record<string, number>;
  /** Attempts by duration: one number more than `latencyBoundsMs`. */
  latency: number[];
  /** Of all clients only: owed assets at the step's last sweep. */
  owed?: number;
}

export type AttemptHistory = ReturnType<typeof countAttempts>;

export function countAttempts(db: Db, log: Logger) {
  const { add, close } = countLater(db, { everyMs: 5000, keptSeconds }, (err) =>
    // Missing a few attempts in a plot is better than showing some twice.
    log.debug({ err }, 'counts of attempts were not written'),
  );
  return {
    count(clientToken: string, { ok, error }: { ok: boolean; error?: string }, milliseconds: number): void {
      const atMs = nowOf(db);
      const step = Math.floor((atMs % hourMs) / stepMs);
      for (const { attemptsBy } of [db.client(clientToken), db.global]) {
        const key = attemptsBy(Math.floor(atMs / hourMs));
        add(key, `${step}:${ok ? 'd' : `f.${error}`}`);
        add(key, `${step}:l${latencyBoundsMs.filter((bound) => bound < milliseconds).length}`);
      }
    },
    close,
  };
}

/** Notes how much all clients are owed now, as a sweep has counted. */
export async function noteOwed(db: Db, owed: number): Promise<void> {
  const atMs = nowOf(db);
  const key = db.global.attemptsBy(Math.floor(atMs / hourMs));
  await db.redis.hset(key, `${Math.floor((atMs % hourMs) / stepMs)}:o`, owed);
  await db.redis.expire(key, keptSeconds);
}

/** Returns every step of the last day, oldest first, of a client or of all. */
export async function readAttempts(db: Db, clientToken?: string): Promise<AttemptStep[]> {
  const nowMs = nowOf(db);
  const lastHour = Math.floor(nowMs / hourMs);
  const hours = Array.from({ length: hoursRead }, (_, i) => lastHour - hoursRead + 1 + i);
  const { attemptsBy } = clientToken === undefined ? db.global : db.client(clientToken);
  const read = await Promise.all(
    hours.map(async (hour) => parseSteps(hour * hourMs, await db.redis.hgetall(attemptsBy(hour)))),
  );
  return read.flat().filter(({ atMs }) => atMs <= nowMs && atMs > nowMs - 24 * hourMs);
}

function parseSteps(hourAtMs: number, fields: Record<string, string>): AttemptStep[] {
  const steps: AttemptStep[] = Array.from({ length: hourMs / stepMs }, (_, i) => ({
    atMs: hourAtMs + i * stepMs,
    delivered: 0,
    failed: {},
    latency: Array(latencyBoundsMs.length + 1).fill(0),
  }));
  for (const [field, value] of Object.entries(fields)) {
    const [index = '', what = ''] = field.split(':');
    const step = steps[Number(index)];
    if (step === undefined) continue;
    if (what === 'd') step.delivered = Number(value);
    else if (what === 'o') step.owed = Number(value);
    else if (what.startsWith('f.')) step.failed[what.slice(2)] = Number(value);
    else if (what.startsWith('l')) step.latency[Number(what.slice(1))] = Number(value);
  }
  return steps;
}

/** Returns a quantile of the durations, ms, assuming an even spread within a class; undefined without attempts. */
export function quantileMs(latency: readonly number[], share: number): number | undefined {
  const total = latency.reduce((sum, n) => sum + n, 0);
  if (total === 0) return undefined;
  let left = total * share;
  for (const [i, n] of latency.entries()) {
    const from = latencyBoundsMs[i - 1] ?? 0;
    const to = latencyBoundsMs[i] ?? from;
    if (n >= left) return Math.round(from + ((to - from) * left) / n);
    left -= n;
  }
  return latencyBoundsMs.at(-1);
}
