import type { Client } from '@temporalio/client';
import { type Config, deliverySettings } from './config.js';
import { Accepting } from './delivery/accept.js';
import { Couriers } from './delivery/courier.js';
import { Outbox } from './delivery/outbox.js';
import { joinProcesses } from './delivery/startBudget.js';
import type { Logger } from './log.js';
import type { Metrics } from './metrics.js';
import { createNotices } from './notices/notices.js';
import type { Sender } from './outgoing/post.js';
import type { Db } from './redis/connection/db.js';
import { countAttempts } from './redis/records/attemptHistory.js';
import type { SecretBox } from './redis/records/secretBox.js';
import { createCatchUps } from './temporal/catchUps.js';
import type { Tracing } from './tracing.js';

export type Role = 'api' | 'worker' | 'all';

/** The parts of a process that do not depend on others. */
export interface Parts {
  role: Role;
  config: Config;
  db: Db;
  temporal: Client;
  sender: Sender;
  secretBox: SecretBox;
  log: Logger;
  metrics: Metrics;
  tracing?: Tracing;
}

export type StartedParts = Awaited<ReturnType<typeof startDelivering>>;

/**
 * Builds the parts of a process that accept and deliver, each after the parts that it needs. Returns all parts: the
 * dependencies of the API and of the activities. @throws errors of Redis
 */
export async function startDelivering(parts: Parts) {
  const { role, config, db, log } = parts;
  const settings = deliverySettings(config);
  const catchUps = createCatchUps({ ...parts, taskQueue: config.TASK_QUEUE });
  const history = countAttempts(db, log);
  const notices = createNotices({ ...parts, catchUps });
  const couriers =
    role === 'api' ? undefined : new Couriers({ ...parts, settings, catchUps, notices, history });
  // A worker alone accepts no events.
  const processes = role === 'worker' ? undefined : await joinProcesses(db, log);
  const outbox = new Outbox({
    ...parts,
    taskQueue: config.TASK_QUEUE,
    workflowsPerSecond: config.WORKFLOWS_PER_SECOND,
    processes: () => processes?.count() ?? 1,
    // Where a worker shares the process, no delivery waits for the start: fewer starts cost Temporal less.
    gatherMs: role === 'all' ? 500 : 0,
    // An eager start would run on this process's version, whichever version the operator has chosen.
    eager: role === 'all' && config.TEMPORAL_WORKER_BUILD_ID === undefined,
    publicUrl: config.PUBLIC_URL,
    searchAttributeBytes: config.SEARCH_ATTRIBUTE_BYTES,
  });
  const accepting = new Accepting({ ...parts, settings, outbox, couriers, catchUps });
  return {
    ...parts,
    settings,
    catchUps,
    notices,
    outbox,
    accepting,
    /** Undefined without a worker. */
    couriers,
    /** Starts the workflows that wait, then leaves the budget of starts to other processes; call this after the API has ended. */
    async endStarts() {
      await outbox.close();
      await processes?.close();
    },
    /** Ends deliveries; call this after the API and the worker have ended. */
    async close() {
      await couriers?.close();
      await history.close();
    },
  };
}
