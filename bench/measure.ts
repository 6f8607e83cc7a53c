import { type Accounting, account, drain, type Receiver } from './arrivals.js';
import type { Child } from './child.js';
import type { FromPublisher, Job, Published, ToPublisher } from './jobs.js';
import { monotonicMs, type Pids, readUsages, type Usages } from './processUsage.js';

export type Publisher = Child<ToPublisher, FromPublisher>;

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
  accounting: Omit<Accounting, 'deliveries'>;
  /** From the first request to the last arrival. */
  secondsUntilAllArrived: number;
  /** CPU time of each process in the window, divided by the notifications that arrived in it; with known segments by the answered events. */
  cpuMsPerUnit: Record<string, number>;
  /** Share of one core. */
  cpuShare: Record<string, number>;
  /** Memory at the end of the window. */
  rssMb: Record<string, number>;
  refusals: Record<string, number>;
  givenUp: number;
  oddity?: string;
  /** True if the service was still busy with an earlier round when this round began. */
  unsettled: boolean;
}

/** Waits until the processes are idle, runs one job, waits until its notifications have arrived, and accounts for its events. */
export async function measure(
  job: Job,
  publisher: Publisher,
  receiver: Receiver,
  pids: Pids,
): Promise<Round> {
  const unsettled = !(await settle(pids));
  const measuring = publisher.next('measuring');
  const measured = publisher.next('measured');
  const ended = publisher.next('published');
  publisher.send({ kind: 'publish', job });
  await measuring;
  const before = { at: monotonicMs(), usages: readUsages(pids) };
  await measured;
  const after = { at: monotonicMs(), usages: readUsages(pids) };
  const { published } = await ended;
  const arrivals = await drain(receiver, published.events);
  const { deliveries, ...accounting } = account(published.events, arrivals);
  const arrivedAt = deliveries.map((d) => d.arrivedAt);
  const inWindow = deliveries.filter((d) => d.acceptedAt >= published.from && d.acceptedAt < published.to);
  const seconds = (published.to - published.from) / 1000;
  const { at, answeredAt } = published.answers;
  const answeredIn = (from: number, to: number) => countBetween(answeredAt, from, to) * job.batchSize;
  const answerMs = at
    .map((sentAt, i) => ({ at: sentAt, ms: (answeredAt[i] ?? 0) - sentAt }))
    .filter((one) => one.at >= published.from && one.at < published.to)
    .map(({ ms }) => ms);
  return {
    seconds,
    answeredPerSecond: answeredIn(published.from, published.to) / seconds,
    answer: latency(answerMs),
    deliveredPerSecond: countBetween(arrivedAt, published.from, published.to) / seconds,
    delivery: latency(inWindow.map((d) => d.arrivedAt - d.acceptedAt)),
    accounting,
    secondsUntilAllArrived:
      (arrivedAt.reduce((a, b) => Math.max(a, b), published.to) - published.from) / 1000,
    ...usage(
      before,
      after,
      job.isKnown ? answeredIn(before.at, after.at) : countBetween(arrivedAt, before.at, after.at),
    ),
    ...pick(published),
    unsettled,
  };
}

const pick = ({ refusals, givenUp, oddity }: Published) => ({ refusals, givenUp, oddity });

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

function countBetween(times: readonly number[], from: number, to: number): number {
  return times.reduce((n, at) => (at >= from && at < to ? n + 1 : n), 0);
}

export function latency(values: readonly number[]): Latency {
  const sorted = [...values].sort((a, b) => a - b);
  return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), max: percentile(sorted, 1) };
}

/** Returns the value below which the share `p` (0 to 1) of `sorted` (ascending) lies: nearest rank; NaN if it is empty. */
export function percentile(sorted: readonly number[], p: number): number {
  return sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] ?? Number.NaN;
}

/** The benchmark's own processes. */
const bystanders = ['publisher', 'receiver'];

/** Sums the figures of all processes but the benchmark's own. */
export function sumOfService(byProcess: Readonly<Record<string, number>>): number {
  return Object.entries(byProcess).reduce((sum, [name, n]) => (bystanders.includes(name) ? sum : sum + n), 0);
}

/** Share of one core of the service and its servers together: a little more than they use without work. */
const idleShare = 0.15;
const patienceMs = 90_000;

/** Waits until the processes are idle, so that a round has no remaining work of the round before. Returns false if they are not after 90 s. */
async function settle(pids: Pids): Promise<boolean> {
  const end = monotonicMs() + patienceMs;
  for (;;) {
    const before = { at: monotonicMs(), usages: readUsages(pids) };
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const after = { at: monotonicMs(), usages: readUsages(pids) };
    const shares = usage(before, after, 1).cpuShare;
    if (Object.values(shares).reduce((sum, share) => sum + share, 0) < idleShare) return true;
    if (after.at > end) return false;
  }
}
