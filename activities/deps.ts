import type { Client } from '@temporalio/client';
import type { DeliveryMetrics } from '../src/delivery/clientAttempts.js';
import type { Engine } from '../src/delivery/engine.js';
import type { DeliverySettings } from '../src/delivery/settings.js';
import type { Logger } from '../src/log.js';
import type { Db } from '../src/store/db.js';
import type { Durability } from '../src/store/durable.js';
import type { CatchUps } from '../src/temporal/catchUps.js';

/** What the activities need of the world; tests hand in their own. */
export interface ActivityDeps {
  db: Db;
  durability: Durability;
  engine: Engine;
  delivery: DeliverySettings;
  temporal: Client;
  catchUps: CatchUps;
  taskQueue: string;
  log: Logger;
  metrics: DeliveryMetrics;
}
