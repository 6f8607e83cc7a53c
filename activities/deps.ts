import type { Client } from '@temporalio/client';
import type { Delivery } from '../src/delivery.js';
import type { Logger } from '../src/log.js';
import type { Sender } from '../src/outgoing/post.js';
import type { Db } from '../src/store/db.js';
import type { SecretBox } from '../src/store/secretBox.js';
import type { Ahead } from '../src/temporal/ahead.js';
import type { Pace } from '../src/temporal/pace.js';

/** What the activities need of the world; tests hand in their own. */
export interface ActivityDeps {
  db: Db;
  sender: Sender;
  secretBox: SecretBox;
  delivery: Delivery;
  temporal: Client;
  taskQueue: string;
  log: Logger;
  metrics: DeliveryMetrics;
  /** Attempts that go on after their activity returned; shutting down waits for them. */
  underWay: Set<Promise<unknown>>;
  /** Told when first attempts have been sent; absent where no intake shares this process. */
  pace?: Pick<Pace, 'tell'>;
  /** First attempts that the intake of this process has begun; absent where none shares it. */
  ahead?: Pick<Ahead, 'join'>;
  /** Whether Redis has on its disk what it has answered; absent where nobody looks. */
  answersAreOnDisk?: () => boolean;
}

export interface DeliveryMetrics {
  attempted(result: { ok: boolean; error?: string }, milliseconds: number): void;
  ended(state: string): void;
  entered(state: string): void;
}
