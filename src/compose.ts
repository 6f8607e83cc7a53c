/** What delivers in one process, put together in the order in which each part needs the others. */
import type { Client } from '@temporalio/client';
import type { Config } from './config.js';
import { type Accepting, createAccepting } from './delivery/accept.js';
import { createClaims } from './delivery/claims.js';
import type { DeliveryMetrics } from './delivery/clientAttempts.js';
import { createEngine, type Engine } from './delivery/engine.js';
import { createOutbox, type Outbox, type OutboxMetrics } from './delivery/outbox.js';
import { deliveryOf } from './delivery/settings.js';
import type { Logger } from './log.js';
import type { Sender } from './outgoing/post.js';
import type { Db } from './redis/connection/db.js';
import { type Durability, openDurability } from './redis/connection/durable.js';
import { countAttempts } from './redis/records/attemptHistory.js';
import type { SecretBox } from './redis/records/secretBox.js';
import { type CatchUps, createCatchUps } from './temporal/catchUps.js';
import type { ActivityDeps } from './upkeep/deps.js';

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
}

export interface Delivering {
  durability: Durability;
  catchUps: CatchUps;
  /** Where this process has a worker. */
  engine: Engine | undefined;
  outbox: Outbox;
  accepting: Accepting;
  /** For the worker. */
  activityDeps(engine: Engine): ActivityDeps;
  /** After the API and the worker have ended. */
  close(): Promise<void>;
}

export async function startDelivering(options: DeliveryOptions): Promise<Delivering> {
  const { role, config, db, temporal, log, metrics } = options;
  const taskQueue = config.TASK_QUEUE;
  const delivery = deliveryOf(config);
  const durability = await openDurability(db, {
    trusted: config.REDIS_DURABILITY === 'trusted',
    ackReplicas: config.REDIS_ACK_REPLICAS,
    log,
  });
  const catchUps = createCatchUps({ temporal, db, taskQueue, log });
  const history = countAttempts(db, log);
  const engine = role === 'api' ? undefined : createEngine({ ...options, delivery, catchUps, history });
  const outbox = createOutbox({
    temporal,
    taskQueue,
    workflowsPerSecond: config.WORKFLOWS_PER_SECOND,
    eager: role === 'all',
    log,
    metrics,
  });
  const claim = createClaims({
    db,
    ...(engine !== undefined && { take: { ...delivery, isQueueing: engine.isQueueing } }),
    wakeCatchUp: catchUps.signal,
    log,
  });
  const accepting = createAccepting({ claim, durability, outbox, ...(engine !== undefined && { engine }) });
  return {
    durability,
    catchUps,
    engine,
    outbox,
    accepting,
    activityDeps: (its) => ({
      db,
      durability,
      engine: its,
      delivery,
      temporal,
      catchUps,
      taskQueue,
      log,
      metrics,
    }),
    async close() {
      await engine?.close();
      await history.close();
      durability.close();
    },
  };
}
