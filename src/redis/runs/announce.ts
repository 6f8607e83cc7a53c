/** Records each analysis run and the clients that its events name, so that a change of the run finds them all. */
import { Announced } from '../connection/announced.js';
import { type Db, nowOf } from '../connection/db.js';
import { runPipeline } from '../connection/pipeline.js';
import { dropRun } from './drop.js';
import { holdRun } from './hold.js';
import { stateOf } from './runs.js';

/** A process announces a pair of run and client again after this time. */
export const announcedMs = 300_000;
/** The runs with the newest events are kept. */
export const maxRuns = 10_000;

/** Pairs of run and client. */
const announced = new Announced(announcedMs);

/**
 * Announces events of runs. Await it before the events are claimed, so that a paused or cancelled run holds them too.
 * @returns undefined if nothing needs to be written, such as for events without a run
 */
export function announceRuns(
  db: Db,
  clientToken: string,
  events: Iterable<{ runId?: string }>,
): Promise<unknown> | undefined {
  let missing: Set<string> | undefined;
  for (const { runId } of events) {
    if (runId === undefined) continue;
    const at = nowOf(db);
    if (announced.isDue(db, `${runId} ${clientToken}`, at)) missing = (missing ?? new Set()).add(runId);
  }
  if (missing === undefined) return undefined;
  return Promise.all([...missing].map((runId) => announce(db, runId, clientToken)));
}

async function announce(db: Db, runId: string, clientToken: string): Promise<void> {
  const at = nowOf(db);
  const { run, runs, runClients, openRuns } = db.global;
  const note = announced.noting(db, at);
  // First the client, then the state: a later change of the state finds the client. In a cluster they may be on two nodes,
  // so one answer is awaited before the other command is sent.
  await db.redis.sadd(runClients(runId), clientToken);
  const answers = await runPipeline(
    db.redis
      .pipeline()
      .hsetnx(run(runId), 'first_at', at)
      .hmget(run(runId), 'state', 'version')
      .sadd(openRuns, runId)
      .zadd(runs, at, runId),
  );
  const [state, version] = answers[1] as (string | null)[];
  const held = { runId, state: stateOf(state), version: Number(version ?? 0) };
  if (held.state !== 'active') await holdRun(db, clientToken, held);
  note([`${runId} ${clientToken}`]);
  if (answers[3] === 1) await keepNewest(db);
}

/** Drops the runs with the oldest events beyond the maximum, except paused ones. */
async function keepNewest(db: Db): Promise<void> {
  const over = (await db.redis.zcard(db.global.runs)) - maxRuns;
  if (over <= 0) return;
  for (const runId of await db.redis.zrange(db.global.runs, '0', String(over - 1))) {
    if (stateOf(await db.redis.hget(db.global.run(runId), 'state')) !== 'paused') await dropRun(db, runId);
  }
}
