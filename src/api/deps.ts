import type { Client } from '@temporalio/client';
import type { Config } from '../config.js';
import type { Accepting } from '../delivery/claim.js';
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics.js';
import type { Notices } from '../notices/notices.js';
import type { TargetPolicy } from '../outgoing/address.js';
import type { Lookup } from '../outgoing/names.js';
import type { Sender } from '../outgoing/post.js';
import type { Db } from '../redis/connection/db.js';
import type { SecretBox } from '../redis/records/secretBox.js';
import type { CatchUps } from '../temporal/catchUps.js';
import type { Tracing } from '../tracing.js';
import type { Readiness } from './readiness.js';

/** The dependencies of the endpoints. */
export interface ApiDeps {
  config: Config;
  db: Db;
  log: Logger;
  temporal: Client;
  /** Accepts enrichment events. */
  accepting: Accepting;
  catchUps: CatchUps;
  notices: Pick<Notices, 'tell'>;
  sender: Sender;
  secretBox: SecretBox;
  metrics: Metrics;
  targetPolicy: TargetPolicy;
  /** The answer of /readyz; not ready once the process was told to stop, so that a balancer sends no more. */
  readiness: () => Promise<Readiness>;
  /** Aborted when the server is about to close, to end long-lived answers. */
  closing?: AbortSignal;
  /** Resolves the names of URLs to register; tests pass their own. */
  lookup?: Lookup;
  /** Undefined: tracing is off. */
  tracing?: Tracing;
}
