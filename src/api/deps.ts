import type { Client } from '@temporalio/client';
import type { Config } from '../config.js';
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics.js';
import type { TargetPolicy } from '../outgoing/address.js';
import type { Sender } from '../outgoing/post.js';
import type { Lookup } from '../outgoing/target.js';
import type { Db } from '../store/db.js';
import type { SecretBox } from '../store/secretBox.js';
import type { Intake } from '../temporal/intake.js';
import type { Readiness } from './readiness.js';

/** What the endpoints need of the world. */
export interface ApiDeps {
  config: Config;
  db: Db;
  log: Logger;
  temporal: Client;
  intake: Intake;
  sender: Sender;
  secretBox: SecretBox;
  metrics: Metrics;
  targetPolicy: TargetPolicy;
  /** What /readyz says; not ready once the process has been told to end, and whoever balances sends no more. */
  readiness: () => Promise<Readiness>;
  /** Resolves the names of URLs to register; tests hand in their own. */
  lookup?: Lookup;
}
