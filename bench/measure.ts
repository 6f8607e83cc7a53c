import { setTimeout as sleep } from 'node:timers/promises';
import type { Load } from './loads.js';
import { monotonicMs, type Pids, readUsages, type Usages } from './processUsage.js';
import { Publisher, type Receiver, type Running } from './publisher.js';

export interface Latency {
  p50: number;
  p99: number;
  max: number;
}

/** One round of one load. Times in ms. */
export interface Round {
  seconds: number;
  /** Events answered with success in the window. */
  answeredPerSecond: number;
  /** From sent (or due) to answered. */
  answer: Latency;
  /** Arrivals at the receiver in the window. */
  deliveredPerSecond: number;
  /** From sent (or due) to arrived, for events sent in the window, even if they arrived after it. */
  delivery: Latency;
  /** Acknowledged events that have not arrived: none came any more for 45 s. */
  lost: number;
  /** Further arrivals of an event. */
  twice: number;
  /** From the first request to the last arrival. */
  secondsUntilAllArrived: number;
  /** CPU time of each process in the window, divided by the notifications that arrived in it; with known segments by the answered events. */
  cpuMsPerUnit: Record<string, number>;
  /** Share of one core. */
  cpuShare: Record<string, number>;
  /** Memory at the end of the window. */
  rssMb: Record<string, number>;
  refusals: Record<string, number>;
  /** Events that were never acknowledged. */
  givenUp: number;
  /** The first unexpected answer. */
  oddity: string | undefined;
  /** True if the service was still busy with an earlier round when this round began. */
  unsettled: boolean;
}

/** Long enough for two retries (after 5 s and 30 s). */
const stalledMs = 45_000;

/** Waits until the processes are idle, publishes, waits until all has arrived, and accounts for it. */
export async function measure(
  load: Load,
  { running, pids, receiver }: { running: Running; pids: Pids; receiver: Receiver },
  { warmUpMs = 0, durationMs }: { warmUpMs?: number; durationMs: number },
): Promise<Round> {
  const unsettled = !(await settle(pids));
  const publisher = new Publisher(load, running);
  const sample = () => ({ at: monotonicMs(), usages: readUsages(pids) });
  const from = monotonicMs() + warmUpMs;
  const published = publisher.publish(warmUpMs + durationMs);
  await sleep(warmUpMs);
  const before = sample();
  const ended = new AbortController();
  const end = sleep(durationMs, undefined, { signal: ended.signal }).catch(() => {});
  await Promise.race([published, end]);
  const after = sample();
  ended.abort();
  await published;
  const account = publisher.account(await publisher.drain(receiver, stalledMs));
  const { acknowledged, delivered, arrivedAt, lost, twice, givenUp } = account;
  const isIn = (at: number) => at >= from && at < after.at;
  const seconds = (after.at - from) / 1000;
  const answered = acknowledged.filter(({ answeredAt }) => isIn(answeredAt)).length;
  const arrived = arrivedAt.filter(isIn).length;
  return {
    seconds,
    answeredPerSecond: answered / seconds,
    answer: latency(acknowledged.filter(({ at }) => isIn(at)).map((one) => one.answeredAt - one.at)),
    deliveredPerSecond: arrived / seconds,
    delivery: latency(delivered.filter(({ at }) => isIn(at)).map((one) => one.arrivedAt - one.at)),
    lost,
    twice,
    secondsUntilAllArrived: (arrivedAt.reduce((a, b) => Math.max(a, b), after.at) - from) / 1000,
    ...usage(before, after, load.isKnown ? answered : arrived),
    refusals: publisher.refusals,
    givenUp,
    oddity: publisher.oddity,
    unsettled,
  };
}

interface Sample {
  at: number;
  usages: Usages;
}

function usage(
  before: Sample,
  after: Sample,
  units: number,
): Pick<Round, 'cpuMsPerUnit' | 'cpuShare' | 'rssMb'> {
  const cpuMs = (name: string) => (after.usages[name]?.cpuMs ?? 0) - (before.usages[name]?.cpuMs ?? 0);
  const each = (value: (name: string) => number) =>
    Object.fromEntries(Object.keys(after.usages).map((name) => [name, value(name)]));
  return {
    cpuMsPerUnit: each((name) => cpuMs(name) / units),
    cpuShare: each((name) => cpuMs(name) / (after.at - before.at)),
    rssMb: each((name) => (after.usages[name]?.rssBytes ?? 0) / 2 ** 20),
  };
}

export function latency(values: readonly number[]): Latency {
  const sorted = [...values].sort((a, b) => a - b);
  return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), max: percentile(sorted, 1) };
}

/** Returns the value below which the share `p` (0 to 1) of `sorted` (ascending) lies: nearest rank; NaN if it is empty. */
export function percentile(sorted: readonly number[], p: number): number {
  return sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] ?? Number.NaN;
}

/** Sums the figures of all processes but the receiver. */
export function sumOfService(byProcess: Readonly<Record<string, number>>): number {
  return Object.entries(byProcess).reduce((sum, [name, n]) => (name === 'receiver' ? sum : sum + n), 0);
}

/** Share of one core of the service and its servers together: a little more than they use without work. */
const idleShare = 0.15;
const patienceMs = 90_000;

/** Waits until the processes are idle, so that a round has no remaining work of the round before. Returns false if they are not after 90 s. */
async function settle(pids: Pids): Promise<boolean> {
  const end = monotonicMs() + patienceMs;
  for (;;) {
    const before = { at: monotonicMs(), usages: readUsages(pids) };
    await sleep(1000);
    const after = { at: monotonicMs(), usages: readUsages(pids) };
    const shares = usage(before, after, 1).cpuShare;
    if (Object.values(shares).reduce((sum, share) => sum + share, 0) < idleShare) return true;
    if (after.at > end) return false;
  }
}
