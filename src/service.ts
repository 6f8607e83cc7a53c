import { setTimeout as sleep } from 'node:timers/promises';
import type { NativeConnection } from '@temporalio/worker';
import type { ActivityDeps } from '../activities/deps.js';
import { listenAdmin } from './api/admin.js';
import { createApi } from './api/app.js';
import { createReadiness, lookEveryMs } from './api/readiness.js';
import { listen } from './api/server.js';
import type { Config } from './config.js';
import { type Role, startDelivering } from './delivery/compose.js';
import { createLogger, type Logger } from './log.js';
import { createMetrics } from './metrics.js';
import { createSender } from './outgoing/post.js';
import { targetPolicyOf } from './outgoing/targetPolicy.js';
import { closeDb, openDb, waitForRedis } from './store/db.js';
import { unaccountedNow } from './store/findings.js';
import { checkLayout } from './store/layout.js';
import { owedInAll } from './store/owed.js';
import { createSecretBox } from './store/secretBox.js';
import { askServer } from './temporal/askServer.js';
import { clientOf, connect, connectNative } from './temporal/connection.js';
import { ensureSearchAttributes } from './temporal/searchAttributes.js';
import { ensureSweepSchedule } from './temporal/sweepSchedule.js';
import { installRuntime, type Running, startWorkers } from './temporal/worker.js';

export type { Role } from './delivery/compose.js';

/** Runs a role until SIGTERM or SIGINT, then ends it in order: no new work, what is under way finishes, connections close. */
export async function run(role: Role, config: Config): Promise<void> {
  const log = createLogger(config.LOG_LEVEL, role);
  installRuntime(log);
  const stop = stopSignal(log);
  const metrics = createMetrics();
  const db = openDb({ url: config.REDIS_URL, prefix: config.KEY_PREFIX, log });
  await waitForRedis(db, 60_000);
  await checkLayout(db);

  const native = role === 'api' ? undefined : await connectNative(config, log);
  const connection = native ?? connect(config);
  const temporal = clientOf(connection, config);
  const targetPolicy = targetPolicyOf(config);
  const sender = createSender({
    policy: targetPolicy,
    timeoutMs: config.ATTEMPT_TIMEOUT_SECONDS * 1000,
    connectionsPerOrigin: config.CONNECTIONS_PER_ORIGIN,
    maxSockets: config.MAX_SOCKETS,
  });
  const secretBox = createSecretBox(config.SECRETS_KEY);
  if (!secretBox.encrypts) log.warn('SECRETS_KEY is not set: signing secrets are stored as they are');
  if (config.ALLOW_HTTP_TARGETS || config.ALLOWED_TARGET_CIDRS.length > 0) {
    log.warn(
      { http: config.ALLOW_HTTP_TARGETS, ranges: config.ALLOWED_TARGET_CIDRS },
      'targets that are not public https are allowed',
    );
  }

  const delivering = await startDelivering({ role, config, db, temporal, sender, secretBox, log, metrics });
  const { accepting, catchUps, durability, engine, outbox } = delivering;
  const workers =
    native === undefined || engine === undefined
      ? undefined
      : await startWorkersAndSweep(config, native, delivering.activityDeps(engine));

  let ending = false;
  const readiness = createReadiness({
    redis: () => db.redis.ping(),
    temporal: () => askServer(connection, lookEveryMs),
    ending: () => ending,
  });
  metrics.watch('asset_update_owed_notifications', () => owedInAll(db));
  metrics.watch('asset_update_claims_under_way', () => accepting.underWay());
  metrics.watch('asset_update_outbox_waiting_events', () => outbox.waiting());
  metrics.watch('asset_update_posts_in_flight', () => sender.inFlight());
  metrics.watch('asset_update_posts_waiting', () => sender.waiting());
  if (engine !== undefined) metrics.watch('asset_update_queued_attempts', () => engine.queued());
  if (workers !== undefined) {
    metrics.watch('asset_update_retries_under_way', () => workers.inUse().retries);
    metrics.watch('asset_update_upkeep_under_way', () => workers.inUse().upkeep);
    metrics.watch('asset_update_unaccounted', () => unaccountedNow(db));
    metrics.watch('asset_update_catch_ups_running', async () => (await catchUps.running()).size);
  }
  const closing = new AbortController();
  const app = createApi({
    config,
    db,
    log,
    temporal,
    accepting,
    durability,
    catchUps,
    sender,
    secretBox,
    metrics,
    targetPolicy,
    readiness,
    closing: closing.signal,
  });
  const api = role === 'worker' ? undefined : await listen(config, app);
  const admin = await listenAdmin(config, metrics, readiness);
  log.info({ ...(api === undefined ? {} : { port: api.port }), admin_port: admin.port }, 'ready');

  await Promise.race([stop, ...(workers === undefined ? [] : [workers.ended])]);
  ending = true;
  api?.drain();
  if (api !== undefined) await sleep(config.SHUTDOWN_DELAY_SECONDS * 1000);
  closing.abort();
  await api?.close();
  await outbox.close();
  workers?.shutdown();
  await workers?.ended;
  await delivering.close();
  await sender.close();
  await admin.close();
  await connection.close();
  closeDb(db);
  log.info('ended');
}

const scheduleEveryMs = 60_000;

async function startWorkersAndSweep(
  config: Config,
  connection: NativeConnection,
  deps: ActivityDeps,
): Promise<Running> {
  const { log } = deps;
  await ensureSearchAttributes(connection, config.TEMPORAL_NAMESPACE);
  await ensureSweepSchedule(deps.temporal, config.TASK_QUEUE);
  const running = await startWorkers(config, connection, deps);
  // Temporal's store may be lost and made anew while workers run.
  const schedule = setInterval(() => {
    ensureSweepSchedule(deps.temporal, config.TASK_QUEUE).catch((err: unknown) => {
      log.warn({ err }, 'it is not known whether the sweep is scheduled');
    });
  }, scheduleEveryMs);
  const ended = running.ended.finally(() => clearInterval(schedule));
  ended.catch((err: unknown) => log.fatal({ err }, 'the worker failed'));
  return { ...running, ended };
}

function stopSignal(log: Logger): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.once(signal, () => {
        log.info({ signal }, 'ending');
        resolve();
      });
    }
  });
}
