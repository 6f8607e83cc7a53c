import type { Client } from '@temporalio/client';
import type { DeliverySettings } from '../delivery/settings.js';
import type { Db } from '../redis/connection/db.js';
import { unlessBroken } from '../redis/connection/unlessBroken.js';
import type { Tally } from './tally.js';

/** The dependencies of every part of a walk. */
export interface Walk {
  db: Db;
  temporal: Client;
  taskQueue: string;
  settings: DeliverySettings;
  /** Only events accepted since then are counted (ms). */
  since: number;
  /** Walks this client alone. */
  clientToken?: string;
  tally: Tally;
  looked: { clients: number; notifications: number; workflows: number; events: number; histories: number };
  /** Awaited before each call to Temporal. */
  pace(): Promise<void>;
}

/** Does one client's part of a walk. Broken keys of that client are a finding, and the walk continues. @throws if Redis is unavailable */
export function walkClient({ tally }: Walk, clientToken: string, work: () => Promise<void>): Promise<void> {
  return unlessBroken(work, () => tally.blame({ clientToken, problem: 'keys_broken' }));
}
