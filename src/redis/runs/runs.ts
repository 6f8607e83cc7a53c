/** Reads analysis runs: their state, and their counts over all their clients. */
import type { Db } from '../connection/db.js';
import type { HashOf } from '../connection/fields.js';
import { runPipeline } from '../connection/pipeline.js';

export const runStates = ['active', 'paused', 'cancelled'] as const;
export type RunState = (typeof runStates)[number];

/** Times are ms since the epoch. */
export interface Run {
  runId: string;
  state: RunState;
  /** Raised by each change. */
  version: number;
  firstEventAt: number;
  /** Time of the last pause, resume or cancellation. */
  stateAt?: number;
  /** When an operator asked to forget its segments. */
  forgotAt?: number;
}

/** Numbers of events; each accepted event is also in one of the other numbers. */
export interface RunCounts {
  accepted: number;
  /** Events that made no notification. */
  none: number;
  owed: number;
  delivered: number;
  superseded: number;
  not_needed: number;
  failed: number;
  cancelled: number;
}

export interface RunSums {
  counts: RunCounts;
  /** Clients that its events have named. */
  clients: number;
  /** Segments. */
  forgotten: number;
}

/** The due time of a parked notification, ms, later than any other (`PARKED` in shared/endpoint.lua). */
export const parkedAt = 8_640_000_000_000_000;

export async function getRun(db: Db, runId: string): Promise<Run | undefined> {
  const found: HashOf<'run'> = await db.redis.hgetall(db.global.run(runId));
  if (found.first_at === undefined) return undefined;
  return {
    runId,
    state: stateOf(found.state),
    version: Number(found.version ?? 0),
    firstEventAt: Number(found.first_at),
    ...(found.state_at !== undefined && { stateAt: Number(found.state_at) }),
    ...(found.forgot_at !== undefined && { forgotAt: Number(found.forgot_at) }),
  };
}

/** Lists the runs with the newest events, the newest first. */
export async function newestRuns(db: Db, limit: number): Promise<string[]> {
  return await db.redis.zrevrange(db.global.runs, '0', String(limit - 1));
}

export function stateOf(stored: string | null | undefined): RunState {
  return stored === 'paused' || stored === 'cancelled' ? stored : 'active';
}

const pageSize = 500;

/** Yields pages of the clients that a run's events name; a client may come twice. */
export async function* clientsOfRun(db: Db, runId: string): AsyncGenerator<string[]> {
  let cursor = '0';
  do {
    const [next, page] = await db.redis.sscan(db.global.runClients(runId), cursor, 'COUNT', pageSize);
    cursor = next;
    if (page.length > 0) yield page;
  } while (cursor !== '0');
}

/** Sums the counts of a run: reads one small hash for each of its clients. */
export async function sumRun(db: Db, runId: string): Promise<RunSums> {
  const sums: RunSums = { counts: { ...nothing }, clients: 0, forgotten: 0 };
  const seen = new Set<string>();
  for await (const page of clientsOfRun(db, runId)) {
    const fresh = page.filter((clientToken) => !seen.has(clientToken));
    const commands = db.redis.pipeline();
    for (const clientToken of fresh) {
      seen.add(clientToken);
      commands.hgetall(db.client(clientToken).run(runId));
    }
    for (const found of (await runPipeline(commands)) as HashOf<'runOfClient'>[]) add(sums, found);
  }
  sums.clients = seen.size;
  return sums;
}

const nothing: RunCounts = {
  accepted: 0,
  none: 0,
  owed: 0,
  delivered: 0,
  superseded: 0,
  not_needed: 0,
  failed: 0,
  cancelled: 0,
};
/** The ends of an event; every other accepted event is owed. */
const ends = ['none', 'delivered', 'superseded', 'not_needed', 'failed', 'cancelled'] as const;

function add(sums: RunSums, found: HashOf<'runOfClient'>): void {
  const { counts } = sums;
  const accepted = Number(found.accepted ?? 0);
  let owed = accepted;
  for (const end of ends) {
    const count = Number(found[end] ?? 0);
    counts[end] += count;
    owed -= count;
  }
  counts.accepted += accepted;
  counts.owed += owed;
  sums.forgotten += Number(found.forgotten ?? 0);
}
