import { setTimeout as sleep } from 'node:timers/promises';
import type { NativeConnection } from '@temporalio/worker';
import type { ActivityDeps } from '../activities/index.js';
import { createReadiness, listenAdmin, lookEveryMs } from './api/admin.js';
import { createApi } from './api/app.js';
import { listen } from './api/server.js';
import { type Role, startDelivering } from './compose.js';
import { type Config, durabilityOf, keepSegmentsSeconds } from './config.js';
import { createLogger, type Logger } from './log.js';
import { createMetrics, watchCounts } from './metrics.js';
import { targetPolicyOf } from './outgoing/address.js';
import { createSender } from './outgoing/post.js';
import { product } from './product.js';
import { checkExpiry, checkLayout, closeDb, openDb, waitForRedis } from './redis/connection/db.js';
import { readCounts } from './redis/records/counts.js';
import { createSecretBox } from './redis/records/secretBox.js';
import { askServer, clientOf, connect, untilAvailable } from './temporal/connection.js';
import { ensureSearchAttributes } from './temporal/searchAttributes.js';
import { createSweepSchedule, type SweepSchedule } from './temporal/sweepSchedule.js';
import type { Tracing } from './tracing.js';
import {
  connectNative,
  freeSdkPort,
  installRuntime,
  type Running,
  readSdkMetrics,
  startWorkers,
} from './worker.js';

export type { Role } from './compose.js';

/** Runs a role until SIGTERM or SIGINT, then stops it in order: accepts no new work, finishes work under way, closes connections. */
export async function run(role: Role, config: Config): Promise<void> {
  const log = createLogger(config.LOG_LEVEL, role);
  const sdkPort = role === 'api' ? undefined : await freeSdkPort();
  installRuntime(log, sdkPort);
  const stop = stopSignal(log);
  const tracing = await openTracing(config, log);
  const metrics = createMetrics();
  const db = openDb({
    url: config.REDIS_URL,
    prefix: config.KEY_PREFIX,
    keepSegmentsSeconds: keepSegmentsSeconds(config),
    log,
    observe: metrics.redisAnswered,
    durability: durabilityOf(config),
  });
  await waitForRedis(db, 60_000);
  // The first durable write says whether the store can confirm writes.
  await db.durably(checkLayout).answer;
  await checkExpiry(db);

  const native = role === 'api' ? undefined : await connectNative(config, log);
  const connection = native ?? connect(config);
  const temporal = clientOf(connection, config, metrics.temporalAnswered);
  const targetPolicy = targetPolicyOf(config, sdkPort);
  const sender = createSender({
    policy: targetPolicy,
    timeoutMs: config.ATTEMPT_TIMEOUT_SECONDS * 1000,
    connectionsPerOrigin: config.connectionsPerOrigin,
    maxSockets: config.maxSockets,
  });
  const secretBox = createSecretBox(config.SECRETS_KEY);
  if (!secretBox.encrypts) log.warn('SECRETS_KEY is not set: signing secrets are stored in plain text');
  if (config.ALLOW_HTTP_TARGETS || config.ALLOWED_TARGET_CIDRS.length > 0) {
    log.warn(
      { http: config.ALLOW_HTTP_TARGETS, ranges: config.ALLOWED_TARGET_CIDRS },
      'targets other than public https URLs are allowed',
    );
  }

  const delivering = await startDelivering({
    ...{ role, config, db, temporal, sender, secretBox, log, metrics, tracing },
  });
  const { accepting, activityDeps, catchUps, couriers, notices, outbox } = delivering;
  const schedule = createSweepSchedule(temporal, config.TASK_QUEUE, log);
  const workers =
    native === undefined || activityDeps === undefined
      ? undefined
      : await startWorkersAndSweep(config, native, activityDeps, schedule);

  let ending = false;
  const readiness = createReadiness({
    redis: () => db.nodes.ping(),
    temporal: () => askServer(connection, lookEveryMs),
    ending: () => ending,
  });
  watchCounts(metrics, () => readCounts(db));
  metrics.watch('asset_update_clock_seconds', () => Date.now() / 1000);
  metrics.watch('asset_update_claims_under_way', () => accepting.underWay());
  metrics.watch('asset_update_outbox_waiting_events', () => outbox.waiting());
  metrics.watch('asset_update_posts_in_flight', () => sender.inFlight());
  metrics.watch('asset_update_posts_waiting', () => sender.waiting());
  if (workers !== undefined) {
    metrics.watch('asset_update_retries_under_way', () => workers.inUse().retries);
    metrics.watch('asset_update_upkeep_under_way', () => workers.inUse().upkeep);
    metrics.watch('asset_update_sweep_schedule_paused', () => {
      const paused = schedule.isPaused();
      return paused === undefined ? undefined : Number(paused);
    });
  }
  const closing = new AbortController();
  const app = createApi({
    config,
    db,
    log,
    temporal,
    accepting,
    catchUps,
    notices,
    sender,
    secretBox,
    metrics,
    targetPolicy,
    readiness,
    closing: closing.signal,
    tracing,
  });
  const api = role === 'worker' ? undefined : await listen(config, app);
  const admin = await listenAdmin(config, metrics, readiness, async () =>
    sdkPort === undefined ? '' : await readSdkMetrics(sdkPort),
  );
  log.info({ ...(api === undefined ? {} : { port: api.port }), admin_port: admin.port }, 'ready');

  await Promise.race([stop, ...(workers === undefined ? [] : [workers.ended])]);
  ending = true;
  api?.drain();
  if (api !== undefined) await sleep(config.SHUTDOWN_DELAY_SECONDS * 1000);
  closing.abort();
  await api?.close();
  await delivering.endStarts();
  workers?.shutdown();
  // Activities wait for attempts under way. A failure is thrown below.
  couriers?.close().catch(() => undefined);
  try {
    await workers?.ended;
  } finally {
    // Also if the workers had to be stopped by force: POSTs under way are settled.
    await delivering.close();
  }
  await sender.close();
  await admin.close();
  await connection.close();
  closeDb(db);
  await tracing?.close();
  log.info('ended');
}

/** Loads OpenTelemetry only if tracing is on. */
async function openTracing(config: Config, log: Logger): Promise<Tracing | undefined> {
  if (config.OTEL_TRACES_EXPORTER !== 'otlp') return undefined;
  const { startTracing } = await import('./openTelemetry.js');
  return startTracing({ ...product, log });
}

const guardEveryMs = 60_000;

async function startWorkersAndSweep(
  config: Config,
  connection: NativeConnection,
  deps: ActivityDeps,
  schedule: SweepSchedule,
): Promise<Running> {
  const { log } = deps;
  await ensureSearchAttributes(connection, config.TEMPORAL_NAMESPACE, log);
  await untilAvailable(() => schedule.ensure(), log);
  const running = await startWorkers(config, connection, deps);
  // Temporal may lose its store while workers run, and anybody may change the schedule in its UI.
  const guard = setInterval(() => {
    schedule.ensure().catch((err: unknown) => {
      log.warn({ err }, 'the schedule of the sweep could not be checked; next try in a minute');
    });
  }, guardEveryMs);
  const ended = running.ended.finally(() => clearInterval(guard));
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
