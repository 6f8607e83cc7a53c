import { type Accounting, account, type Delivery } from './accounting.js';
import type { Child } from './child.js';
import { drain, type Receiver } from './drain.js';
import type { FromPublisher, Job, Published, ToPublisher } from './jobs.js';
import { percentile } from './percentile.js';
import { monotonicMs, type Pids, readUsages, type Usages } from './processUsage.js';
import { settle } from './settle.js';

export type Publisher = Child<ToPublisher, FromPublisher>;

interface Latency {
  p50: number;
  p99: number;
  max: number;
}

/** One round of one scenario. Times in ms. */
export interface Round {
  seconds: number;
  /** Requests answered with success in the window; a batch is one request. */
  requestsPerSecond: number;
  /** From sent (or due) to answered. */
  answer: Latency;
  /** Deliveries in the window; absent if the scenario delivers nothing. */
  delivery?: {
    /** Arrivals at the receiver. */
    perSecond: number;
    /** From sent (or due) to arrived, for events sent in the window, even if they arrived after it. */
    latency: Latency;
    accounting: Omit<Accounting, 'deliveries'>;
    /** Notifications whose first POST the receiver refused. */
    refused?: { count: number; latency: Latency };
    /** The most POSTs under way at one time to one client. */
    mostInFlight: number;
    /** Time from the end of sending to the last arrival. */
    drainedAfterMs: number;
  };
  /** CPU time of each process in the window, divided by the units in it: see `MeasureOptions.unit`. */
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

export interface MeasureOptions {
  /** Waits for `settle` first by default. */
  first?: 'settle' | 'nothing';
  /** The divisor of CPU time: arrived notifications, or answered requests (the default without a receiver). */
  unit?: 'arrived' | 'answered';
}

/** Runs one job, waits until its notifications have arrived, and accounts for its events. */
export async function measure(
  job: Job,
  publisher: Publisher,
  receiver: Receiver | undefined,
  pids: Pids,
  options: MeasureOptions = {},
): Promise<Round> {
  const unsettled = options.first !== 'nothing' && !(await settle(pids));
  const measuring = publisher.next('measuring');
  const measured = publisher.next('measured');
  const ended = publisher.next('published');
  publisher.send({ kind: 'publish', job });
  await measuring;
  const before = { at: monotonicMs(), usages: readUsages(pids) };
  await measured;
  const after = { at: monotonicMs(), usages: readUsages(pids) };
  const { published } = await ended;
  const answered = countBetween(published.answers.answeredAt, before.at, after.at);
  if (receiver === undefined) return { ...basics(published, before, after, answered), unsettled };

  const arrivals = await drain(receiver, published.events);
  const { deliveries, ...rest } = account(published.events, arrivals);
  const arrivedAt = deliveries.map((d) => d.arrivedAt);
  const inWindow = deliveries.filter((d) => d.acceptedAt >= published.from && d.acceptedAt < published.to);
  return {
    ...basics(
      published,
      before,
      after,
      options.unit === 'answered' ? answered : countBetween(arrivedAt, before.at, after.at),
    ),
    unsettled,
    delivery: {
      perSecond: countBetween(arrivedAt, published.from, published.to) / seconds(published),
      latency: latency(inWindow.map((d) => d.arrivedAt - d.acceptedAt)),
      accounting: rest,
      ...refusedAtFirst(inWindow, arrivals.refused),
      mostInFlight: arrivals.mostInFlight,
      drainedAfterMs: Math.max(0, arrivedAt.reduce((a, b) => Math.max(a, b), 0) - published.to),
    },
  };
}

function refusedAtFirst(inWindow: readonly Delivery[], ids: readonly string[]) {
  if (ids.length === 0) return {};
  const refused = new Set(ids);
  const ms = inWindow.filter((d) => refused.has(d.notificationId)).map((d) => d.arrivedAt - d.acceptedAt);
  return { refused: { count: ms.length, latency: latency(ms) } };
}

interface Sample {
  at: number;
  usages: Usages;
}

function basics(
  published: Published,
  before: Sample,
  after: Sample,
  units: number,
): Omit<Round, 'unsettled'> {
  const { at, answeredAt } = published.answers;
  const sent = at
    .map((sentAt, i) => ({ at: sentAt, ms: (answeredAt[i] ?? 0) - sentAt }))
    .filter((r) => r.at >= published.from && r.at < published.to);
  const cpuMs = (name: string) => (after.usages[name]?.cpuMs ?? 0) - (before.usages[name]?.cpuMs ?? 0);
  const each = (value: (name: string) => number) =>
    Object.fromEntries(Object.keys(after.usages).map((name) => [name, value(name)]));
  return {
    seconds: seconds(published),
    requestsPerSecond: countBetween(answeredAt, published.from, published.to) / seconds(published),
    answer: latency(sent.map((r) => r.ms)),
    cpuMsPerUnit: each((name) => cpuMs(name) / units),
    cpuShare: each((name) => cpuMs(name) / (after.at - before.at)),
    rssMb: each((name) => (after.usages[name]?.rssBytes ?? 0) / 2 ** 20),
    refusals: published.refusals,
    givenUp: published.givenUp,
    oddity: published.oddity,
  };
}

function seconds({ from, to }: Published): number {
  return (to - from) / 1000;
}

function countBetween(times: readonly number[], from: number, to: number): number {
  return times.reduce((n, at) => (at >= from && at < to ? n + 1 : n), 0);
}

function latency(values: number[]): Latency {
  const sorted = Float64Array.from(values).sort();
  return { p50: percentile(sorted, 0.5), p99: percentile(sorted, 0.99), max: percentile(sorted, 1) };
}

/** The benchmark's own processes. */
const bystanders = ['publisher', 'receiver'];

/** Returns the CPU time (ms) for each unit, without the benchmark's own processes. */
export function cpuMsPerUnit(round: Round): number {
  return sumOfService(round.cpuMsPerUnit);
}

/** Returns the cores in use, without the benchmark's own processes. */
export function coresInUse(round: Round): number {
  return sumOfService(round.cpuShare);
}

function sumOfService(byProcess: Readonly<Record<string, number>>): number {
  return Object.entries(byProcess).reduce((sum, [name, n]) => (bystanders.includes(name) ? sum : sum + n), 0);
}
