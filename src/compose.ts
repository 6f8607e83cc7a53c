import type { Client } from '@temporalio/client';
import type { Config } from './config.js';
import { Hands } from './delivery/hands.js';
import { Outbox } from './delivery/outbox.js';
import type { Logger } from './log.js';
import type { Metrics } from './metrics.js';
import { createNotices } from './notices/notices.js';
import type { Sender } from './outgoing/post.js';
import { watchClocks } from './redis/connection/clocks.js';
import type { Db } from './redis/connection/db.js';
import { createUpdateWaits } from './redis/notifications/updates.js';
import { noteGroup } from './redis/owed/claim.js';
import { countAttempts } from './redis/records/attemptHistory.js';
import { countMinutes } from './redis/records/minutes.js';
import { joinProcesses } from './redis/records/processes.js';
import type { SecretBox } from './redis/records/secretBox.js';
import { createCatchUps } from './temporal/catchUps.js';
import type { Tracing } from './tracing.js';

export type Role = 'api' | 'worker' | 'all';

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
  /** Returns whether a worker of this process runs; absent: always. */
  isWorking?: () => boolean;
}

export type StartedParts = Awaited<ReturnType<typeof startDelivering>>;

/**
 * Builds the parts of a process that accept and deliver, each after the parts that it needs. Returns all parts: the
 * dependencies of the API and of the activities. @throws errors of Redis
 */
export async function startDelivering(parts: Parts) {
  const { role, config, db, log } = parts;
  watchClocks(db, log);
  const catchUps = createCatchUps({ ...parts, taskQueue: config.TASK_QUEUE });
  const history = countAttempts(db, log);
  const minutes = countMinutes(db);
  const notices = createNotices({ ...parts, catchUps });
  // A worker alone accepts no events.
  const processes = role === 'worker' ? undefined : await joinProcesses(db, log);
  const outbox = new Outbox({
    ...parts,
    minutes,
    taskQueue: config.TASK_QUEUE,
    workflowsPerSecond: config.WORKFLOWS_PER_SECOND,
    processes: () => processes?.count() ?? 1,
    delivers: role === 'all',
    onMoved(event, group) {
      noteGroup(db, event, group).catch((err: unknown) => log.debug({ err }, 'a group could not be noted'));
    },
    eager: () => role === 'all' && parts.isWorking?.() !== false,
    publicUrl: config.PUBLIC_URL,
    searchAttributeBytes: config.SEARCH_ATTRIBUTE_BYTES,
  });
  const sends = role !== 'api';
  const hands = new Hands({ ...parts, catchUps, notices, history, minutes, outbox, sends });
  return {
    ...parts,
    catchUps,
    notices,
    outbox,
    minutes,
    updateWaits: createUpdateWaits(db),
    hands,
    /** Starts the workflows that wait, then leaves the budget of starts to other processes; call this after the API has ended. */
    async endStarts() {
      await outbox.close();
      await processes?.close();
    },
    /** Ends deliveries; call this after the API and the worker have ended. */
    async close() {
      await hands.close();
      await Promise.all([history.close(), minutes.close()]);
    },
  };
}
