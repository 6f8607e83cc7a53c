import { setTimeout as sleep } from 'node:timers/promises';
import type { NativeConnection } from '@temporalio/worker';
import { beginAttempts } from '../activities/claimAndAttempt.js';
import type { ActivityDeps } from '../activities/deps.js';
import { listenAdmin } from './api/admin.js';
import { createApi } from './api/app.js';
import { createReadiness, lookEveryMs } from './api/readiness.js';
import { listen } from './api/server.js';
import type { Config } from './config.js';
import { deliveryOf } from './delivery.js';
import { createLogger, type Logger } from './log.js';
import { createMetrics } from './metrics.js';
import { createSender } from './outgoing/post.js';
import { targetPolicyOf } from './outgoing/targetPolicy.js';
import { closeDb, openDb, waitForRedis } from './store/db.js';
import { warnUnlessDurable } from './store/durable.js';
import { unaccountedNow } from './store/findings.js';
import { watchFsync } from './store/fsync.js';
import { checkLayout } from './store/layout.js';
import { owedInAll } from './store/owed.js';
import { createSecretBox } from './store/secretBox.js';
import { createAhead } from './temporal/ahead.js';
import { askServer } from './temporal/askServer.js';
import { runningCatchUps } from './temporal/catchUp.js';
import { clientOf, connect, connectNative } from './temporal/connection.js';
import { createIntake } from './temporal/intake.js';
import { openLine } from './temporal/line.js';
import { createPace, listenForPace, tellPace } from './temporal/pace.js';
import { ensureSearchAttributes } from './temporal/searchAttributes.js';
import { ensureSweepSchedule } from './temporal/sweepSchedule.js';
import { installRuntime, type Running, startWorkers } from './temporal/worker.js';

export type Role = 'api' | 'worker' | 'all';

/** Runs a role until SIGTERM or SIGINT, then ends it in order: no new work, what is under way finishes, connections close. */
export async function run(role: Role, config: Config): Promise<void> {
  const log = createLogger(config.LOG_LEVEL, role);
  installRuntime(log);
  const stop = stopSignal(log);
  const metrics = createMetrics();
  const db = openDb({ url: config.REDIS_URL, prefix: config.KEY_PREFIX, log });
  await waitForRedis(db, 60_000);
  await checkLayout(db);
  await warnUnlessDurable(db, log);

  const line = await openLine(config.TEMPORAL_ADDRESS, log);
  const native = role === 'api' ? undefined : await connectNative(config, log, line);
  const connection = native ?? (await connect(config, log, line));
  const temporal = clientOf(connection, config);
  const targetPolicy = targetPolicyOf(config, [line.port]);
  const delivery = deliveryOf(config);
  const sender = createSender({ policy: targetPolicy, timeoutMs: delivery.attemptTimeoutMs });
  const secretBox = createSecretBox(config.SECRETS_KEY);
  if (!secretBox.encrypts) log.warn('SECRETS_KEY is not set: signing secrets are stored as they are');
  if (config.ALLOW_HTTP_TARGETS || config.ALLOWED_TARGET_CIDRS.length > 0) {
    log.warn(
      { http: config.ALLOW_HTTP_TARGETS, ranges: config.ALLOWED_TARGET_CIDRS },
      'targets that are not public https are allowed',
    );
  }

  const underWay = new Set<Promise<unknown>>();
  const pace = role === 'all' ? createPace() : role === 'api' ? listenForPace(db, log) : undefined;
  const deps: ActivityDeps = {
    db,
    sender,
    secretBox,
    delivery,
    temporal,
    taskQueue: config.TASK_QUEUE,
    log,
    metrics,
    underWay,
    pace: pace ?? tellPace(db),
  };
  const fsync = role === 'all' ? watchFsync(db) : undefined;
  const ahead =
    fsync === undefined
      ? undefined
      : createAhead({
          beginAttempts: (events) => beginAttempts(deps, events),
          isSafe: fsync.always,
          underWay,
        });
  if (ahead !== undefined) deps.ahead = ahead;
  if (fsync !== undefined) deps.answersAreOnDisk = fsync.always;
  const workers = native === undefined ? undefined : await startWorkersAndSweep(config, native, deps, log);

  const intake = createIntake({
    temporal,
    taskQueue: config.TASK_QUEUE,
    log,
    eager: role === 'all',
    grouped: (events) => metrics.groupStarted(events),
    withoutWorkflow: () => metrics.withoutWorkflow(),
    ...(pace === undefined ? {} : { pace }),
    ...(ahead === undefined ? {} : { ahead }),
  });
  let ending = false;
  const readiness = createReadiness({
    redis: () => db.redis.ping(),
    temporal: () => askServer(connection, lookEveryMs),
    ending: () => ending,
  });
  metrics.watch('asset_update_intake_waiting_events', () => intake.waiting());
  metrics.watch('asset_update_owed_notifications', () => owedInAll(db));
  if (workers !== undefined) {
    metrics.watch('asset_update_retries_under_way', () => workers.inUse().retries);
    metrics.watch('asset_update_upkeep_under_way', () => workers.inUse().upkeep);
    metrics.watch('asset_update_unaccounted', () => unaccountedNow(db));
    metrics.watch(
      'asset_update_catch_ups_running',
      async () => (await runningCatchUps(temporal, config.TASK_QUEUE)).size,
    );
  }
  metrics.watch('asset_update_posts_in_flight', () => sender.inFlight());
  const api =
    role === 'worker'
      ? undefined
      : await listen(
          config,
          createApi({
            config,
            db,
            log,
            temporal,
            intake,
            sender,
            secretBox,
            metrics,
            targetPolicy,
            readiness,
          }),
        );
  const admin = await listenAdmin(config, metrics, readiness);
  log.info({ ...(api === undefined ? {} : { port: api.port }), admin_port: admin.port }, 'ready');

  await Promise.race([stop, ...(workers === undefined ? [] : [workers.ended])]);
  ending = true;
  api?.drain();
  if (api !== undefined) await sleep(config.SHUTDOWN_DELAY_SECONDS * 1000);
  await api?.close();
  pace?.close();
  await intake.close();
  workers?.shutdown();
  await workers?.ended;
  await Promise.allSettled(underWay);
  await sender.close();
  await admin.close();
  await connection.close();
  await line.close();
  fsync?.close();
  ahead?.close();
  closeDb(db);
  log.info('ended');
}

const scheduleEveryMs = 60_000;

async function startWorkersAndSweep(
  config: Config,
  connection: NativeConnection,
  deps: ActivityDeps,
  log: Logger,
): Promise<Running> {
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
  ended.catch((err: unknown) => log.fatal({ err }, 'the worker broke off'));
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
