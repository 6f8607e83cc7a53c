/** Reads analysis runs: what operators decided about each, and what it has come to over all its clients. */
import type { Db } from '../connection/db.js';
import type { HashOf } from '../connection/fields.js';
import { runPipeline } from '../connection/pipeline.js';

export const runStates = ['active', 'paused', 'cancelled'] as const;
export type RunState = (typeof runStates)[number];

/** Times are ms since the epoch. */
export interface Run {
  runId: string;
  state: RunState;
  /** Raised with each change. */
  version: number;
  firstEventAt: number;
  /** Since when it is paused or cancelled, or active again. */
  stateAt?: number;
  /** When it was asked for that what it brought is forgotten. */
  forgotAt?: number;
}

/** Numbers of events; each accepted one is in one of the others. */
export interface RunCounts {
  accepted: number;
  /** Made no notification. */
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
  /** That an event of it has named. */
  clients: number;
  /** Segments. */
  forgotten: number;
}

/** A paused notification is due then (`PARKED` in shared/endpoint.lua): later than anything else, ms. */
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

/** Pages of the clients that a run has named; one may be met twice. */
export async function* clientsOfRun(db: Db, runId: string): AsyncGenerator<string[]> {
  let cursor = '0';
  do {
    const [next, page] = await db.redis.sscan(db.global.runClients(runId), cursor, 'COUNT', pageSize);
    cursor = next;
    if (page.length > 0) yield page;
  } while (cursor !== '0');
}

/** Sums up what a run has come to: reads one small hash of each of its clients. */
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
/** The ends of an event: what has none of them is owed. */
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
