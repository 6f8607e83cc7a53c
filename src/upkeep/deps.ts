import type { Client } from '@temporalio/client';
import type { DeliverySettings } from '../config.js';
import type { Couriers } from '../delivery/couriers.js';
import type { DeliveryMetrics } from '../delivery/send.js';
import type { Logger } from '../log.js';
import type { Notices } from '../notices/notices.js';
import type { Db } from '../redis/connection/db.js';
import type { CatchUps } from '../temporal/catchUps.js';
import type { Tracing } from '../tracing.js';

/** The dependencies of activities; tests pass their own. */
export interface ActivityDeps {
  db: Db;
  couriers: Couriers;
  settings: DeliverySettings;
  temporal: Client;
  catchUps: CatchUps;
  notices: Pick<Notices, 'claim'>;
  taskQueue: string;
  log: Logger;
  metrics: DeliveryMetrics;
  /** Undefined: tracing is off. */
  tracing?: Tracing;
}
