/** The present state of the servers and workers that deliveries need. */
import type { Client } from '@temporalio/client';
import type { Config } from '../../config.js';
import type { Db } from '../../redis/connection/db.js';
import { readCounts } from '../../redis/sweep/counts.js';
import { isTemporalUnavailable } from '../../temporal/unavailable.js';
import type { Operator } from '../operator.js';
import { reasonOf } from '../reason.js';
import { span } from '../terminal/moment.js';
import { askForWrite } from './redisWrites.js';
import { readSweepState, type SweepState } from './sweepState.js';

export interface OwnHealth {
  /** The median time of three answers, ms. */
  redisMs: number;
  /** `ok`, or why Redis refuses writes. */
  redis: string;
  /** `ok`, or why it could not be asked. */
  temporal: string;
  /** undefined if Temporal could not be asked. */
  workers?: number;
  sweep?: SweepState;
  /** When a sweep last completed, ms; undefined: never. */
  sweptAt: number | undefined;
}

/** The service gives up on a command after 1 s. */
export const slowRedisMs = 500;
/** The longest call to Temporal, because a person waits. */
export const temporalWithinMs = 5000;
/** A worker asks again after a minute at most. */
const polledWithinMs = 90_000;

export async function readOwnHealth(operator: Operator): Promise<OwnHealth> {
  const db = await operator.db();
  const redisMs = await answerTimeOf(db);
  const redis = await askForWrite(db);
  const sweptAt = (await readCounts(db)).ended?.atMs;
  const known = { redisMs, redis, sweptAt };
  try {
    const temporal = await operator.temporal();
    const { TASK_QUEUE } = operator.config();
    const [workers, sweep] = await temporal.connection.withDeadline(Date.now() + temporalWithinMs, () =>
      Promise.all([countWorkers(temporal, operator.config()), readSweepState(temporal, TASK_QUEUE)]),
    );
    return { ...known, temporal: 'ok', workers, sweep };
  } catch (err) {
    if (isTemporalUnavailable(err)) return { ...known, temporal: 'Temporal does not answer.' };
    return { ...known, temporal: reasonOf(err) };
  }
}

export function redisAsFact({ redisMs, redis }: OwnHealth): string {
  return `answers in ${span(redisMs)}${redis === 'ok' ? '' : ', refuses writes'}`;
}

/** Returns the median of three answers, one after the other, ms: to ECHO, because Redis refuses a PING after a failed write. */
export async function answerTimeOf(db: Db): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < 3; i++) {
    const begun = performance.now();
    await db.nodes.echo();
    times.push(performance.now() - begun);
  }
  return times.sort((a, b) => a - b)[1] as number;
}

/** Workers that asked for workflow tasks lately: at most 5 minutes ago, as Temporal keeps them. */
export async function countWorkers(
  temporal: Client,
  { TEMPORAL_NAMESPACE, TASK_QUEUE }: Config,
): Promise<number> {
  const queue = await temporal.workflowService.describeTaskQueue({
    namespace: TEMPORAL_NAMESPACE,
    taskQueue: { name: TASK_QUEUE },
    taskQueueType: 1,
  });
  const lately = Date.now() - polledWithinMs;
  const polled = (queue.pollers ?? []).filter(
    (poller) => Number(poller.lastAccessTime?.seconds ?? 0) * 1000 > lately,
  );
  return new Set(polled.map((poller) => poller.identity)).size;
}
