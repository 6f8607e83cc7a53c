import type { Client } from '@temporalio/client';
import type { ActivityDeps } from '../activities/index.js';
import { type Config, deliveryOf } from './config.js';
import { Accepting } from './delivery/accept.js';
import { Couriers } from './delivery/couriers.js';
import { Outbox } from './delivery/outbox.js';
import type { DeliveryMetrics } from './delivery/send.js';
import type { OutboxMetrics } from './delivery/workflowStarts.js';
import type { Logger } from './log.js';
import { createNotices, type Notices } from './notices/notices.js';
import type { Sender } from './outgoing/post.js';
import type { Db } from './redis/connection/db.js';
import { joinProcesses } from './redis/connection/processes.js';
import { countAttempts } from './redis/records/attemptHistory.js';
import type { SecretBox } from './redis/records/secretBox.js';
import { type CatchUps, createCatchUps } from './temporal/catchUps.js';
import type { Tracing } from './tracing.js';

export type Role = 'api' | 'worker' | 'all';

export interface DeliveryOptions {
  role: Role;
  config: Config;
  db: Db;
  temporal: Client;
  sender: Sender;
  secretBox: SecretBox;
  log: Logger;
  metrics: DeliveryMetrics & OutboxMetrics;
  /** Undefined: tracing is off. */
  tracing?: Tracing | undefined;
}

export interface Delivering {
  catchUps: CatchUps;
  notices: Notices;
  /** Undefined without a worker. */
  couriers: Couriers | undefined;
  outbox: Outbox;
  accepting: Accepting;
  /** Undefined without a worker. */
  activityDeps: ActivityDeps | undefined;
  /** Starts the workflows that wait, then leaves the budget of starts to other processes; call it after the API has ended. */
  endStarts(): Promise<void>;
  /** Ends deliveries; call it after the API and the worker have ended. */
  close(): Promise<void>;
}

/** Builds the parts of a process that accept and deliver, each after the parts that it needs. @throws errors of Redis */
export async function startDelivering(options: DeliveryOptions): Promise<Delivering> {
  const { role, config, db, temporal, log, metrics } = options;
  const taskQueue = config.TASK_QUEUE;
  const settings = deliveryOf(config);
  const catchUps = createCatchUps({ temporal, db, taskQueue, log });
  const history = countAttempts(db, log);
  const notices = createNotices({ db, catchUps, log, metrics });
  const couriers =
    role === 'api' ? undefined : new Couriers({ ...options, settings, catchUps, notices, history });
  // A worker alone accepts no events.
  const processes = role === 'worker' ? undefined : await joinProcesses(db, log);
  const outbox = new Outbox({
    temporal,
    taskQueue,
    workflowsPerSecond: config.WORKFLOWS_PER_SECOND,
    processes: () => processes?.count() ?? 1,
    // Where a worker shares the process, no delivery waits for the start: fewer starts cost Temporal less.
    gatherMs: role === 'all' ? 500 : 0,
    // An eager start would run on this process's version, whichever version the operator has chosen.
    eager: role === 'all' && config.TEMPORAL_WORKER_BUILD_ID === undefined,
    publicUrl: config.PUBLIC_URL,
    log,
    metrics,
    tracing: options.tracing,
  });
  const accepting = new Accepting({ db, settings, outbox, couriers, catchUps, log, metrics });
  return {
    catchUps,
    notices,
    couriers,
    outbox,
    accepting,
    activityDeps: couriers && {
      db,
      couriers,
      settings,
      catchUps,
      notices,
      log,
      metrics,
      tracing: options.tracing,
    },
    async endStarts() {
      await outbox.close();
      await processes?.close();
    },
    async close() {
      await couriers?.close();
      await history.close();
    },
  };
}
