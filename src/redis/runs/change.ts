/** Changes the state of a run, and applies it to its clients in bounded steps that are safe to repeat. */
import { type Db, nowOf } from '../connection/db.js';
import { evaluate, runScript, text } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import type { RunState } from './runs.js';

export type RunChange = RunState | 'forgotten';

const change = script('changeRun');
const apply = script('applyRun');
const forget = script('forgetRun');

/** Handled in one script: a few milliseconds of a busy Redis. */
const notificationsPerScript = 100;
const eventsPerScript = 50;

export type Changed =
  | { outcome: 'changed'; before: RunState }
  /** A cancelled run stays cancelled; only a cancelled run can be forgotten. */
  | { outcome: 'refused'; before: RunState }
  | { outcome: 'unknown' };

/** Changes the state of a run; the caller makes its clients follow. The sweep does so if the caller fails. */
export async function changeRun(db: Db, runId: string, to: RunChange): Promise<Changed> {
  // Again after the change: meanwhile a workflow may have removed the run, having applied the earlier state.
  const key = db.global.run(runId);
  if (!(await db.redis.exists(key))) return { outcome: 'unknown' };
  await db.redis.sadd(db.global.changedRuns, runId);
  const at = nowOf(db);
  const [before, version] = (await evaluate(db, change, [key], [to, at])) as [RunState | '', number];
  await db.redis.sadd(db.global.changedRuns, runId);
  if (before === '') return { outcome: 'unknown' };
  return { outcome: version === 0 ? 'refused' : 'changed', before };
}

/** Lists runs whose clients do not all follow their state yet. */
export async function changedRuns(db: Db, limit: number): Promise<string[]> {
  return await db.redis.srandmember(db.global.changedRuns, limit);
}

/** Notes that all clients follow the state of a run, unless it has changed since that version. */
export async function endChange(db: Db, runId: string, version: number): Promise<void> {
  await db.redis.srem(db.global.changedRuns, runId);
  const now = Number((await db.redis.hget(db.global.run(runId), 'version')) ?? 0);
  if (now !== version) await db.redis.sadd(db.global.changedRuns, runId);
}

/** Counts of a run's notifications at one client. */
export interface Applied {
  cancelled: number;
  /** Made due, or owed again instead of a cancelled one. */
  due: number;
  /** Held by an attempt that a receiver has not answered yet. */
  inFlight: number;
}

/** Applies a run's hold at a client to all its owed notifications there. @param onStep called before each step */
export async function applyToClient(
  db: Db,
  clientToken: string,
  runId: string,
  onStep: () => void,
): Promise<Applied> {
  const sum: Applied = { cancelled: 0, due: 0, inFlight: 0 };
  let cursor = '0';
  do {
    onStep();
    const answer = await runScript(db, apply, clientToken, [runId, cursor, notificationsPerScript]);
    const [next, cancelled, due, inFlight] = answer as [Buffer, number, number, number];
    cursor = text(next);
    sum.cancelled += cancelled;
    sum.due += due;
    sum.inFlight += inFlight;
  } while (cursor !== '0');
  return sum;
}

/** Forgets the segments that a run was the first to bring at a client. @returns how many */
export async function forgetAtClient(
  db: Db,
  clientToken: string,
  runId: string,
  onStep: () => void,
): Promise<number> {
  for (let sum = 0; ; ) {
    onStep();
    const answer = await runScript(db, forget, clientToken, [runId, eventsPerScript, db.keepSegmentsSeconds]);
    const [forgotten, hasMore] = answer as [number, number];
    sum += forgotten;
    if (hasMore === 0) return sum;
  }
}
