import { setTimeout as sleep } from 'node:timers/promises';
import type { NativeConnection } from '@temporalio/worker';
import type { ActivityDeps } from '../activities/index.js';
import { createReadiness, listenAdmin, lookEveryMs } from './api/admin.js';
import { createApi } from './api/app.js';
import { listen } from './api/server.js';
import { type Parts, type Role, startDelivering } from './compose.js';
import { type Config, redisOptions } from './config.js';
import { createLogger, type Logger } from './log.js';
import { createMetrics, watchCounts } from './metrics.js';
import { readTargetPolicy } from './outgoing/address.js';
import { createSender } from './outgoing/post.js';
import { product } from './product.js';
import { checkExpiry, checkLayout, closeDb, openDb, waitForRedis } from './redis/connection/db.js';
import { firstAnswer } from './redis/connection/nodes.js';
import { readCounts } from './redis/records/counts.js';
import { createSecretBox } from './redis/records/secretBox.js';
import { askServer, connect, createTemporalClient, untilAvailable } from './temporal/connection.js';
import { ensureSearchAttributes } from './temporal/searchAttributes.js';
import { createSweepSchedule } from './temporal/sweepSchedule.js';
import { connectNative, freeSdkPort, installRuntime, readSdkMetrics, startWorkers } from './worker.js';

/** Runs a role until SIGTERM or SIGINT, then stops it in order: accepts no new work, finishes work under way, closes connections. */
export async function serve(role: Role, config: Config): Promise<void> {
  const log = createLogger(config.LOG_LEVEL, role);
  const sdkPort = role === 'api' ? undefined : await freeSdkPort();
  installRuntime(log, sdkPort);
  const stop = stopSignal(log);
  // OpenTelemetry takes memory and time to load.
  const tracing =
    config.OTEL_TRACES_EXPORTER === 'otlp'
      ? (await import('./openTelemetry.js')).startTracing(product, log)
      : undefined;
  const metrics = createMetrics();
  const db = openDb({ ...redisOptions(config), log, observe: metrics.redisAnswered });
  await waitForRedis(db, 60_000);
  // The first durable write says whether the store can confirm writes.
  await db.durably(checkLayout).answer;
  await checkExpiry(db);

  const native = role === 'api' ? undefined : await connectNative(config, log);
  const connection = native ?? connect(config);
  const temporal = createTemporalClient(connection, config, metrics.temporalAnswered);
  const targetPolicy = readTargetPolicy(config, sdkPort);
  const sender = createSender({
    policy: targetPolicy,
    timeoutMs: config.ATTEMPT_TIMEOUT_SECONDS * 1000,
    connectionsPerOrigin: config.connectionsPerOrigin,
    maxSockets: config.maxSockets,
  });
  const secretBox = createSecretBox(config.SECRETS_KEY);
  if (config.SECRETS_KEY === undefined)
    log.warn('SECRETS_KEY is not set: signing secrets are stored in plain text');
  if (config.ALLOW_HTTP_TARGETS || config.ALLOWED_TARGET_CIDRS.length > 0) {
    log.warn(
      { http: config.ALLOW_HTTP_TARGETS, ranges: config.ALLOWED_TARGET_CIDRS },
      'targets other than public https URLs are allowed',
    );
  }

  const parts = { role, config, db, temporal, sender, secretBox, log, metrics, tracing };
  const delivering = await startDelivering(parts);
  const { accepting, couriers, outbox } = delivering;
  const workers =
    native === undefined || couriers === undefined
      ? undefined
      : await startWorkersAndSweep(native, { ...delivering, couriers });

  let ending = false;
  const readiness = createReadiness({
    redis: () => firstAnswer(db.nodes, (server) => server.ping()),
    temporal: () => askServer(connection, lookEveryMs),
    ending: () => ending,
  });
  watchCounts(metrics, () => readCounts(db));
  metrics.watch('asset_update_clock_seconds', () => Date.now() / 1000);
  metrics.watch('asset_update_claims_under_way', () => accepting.underWay());
  metrics.watch('asset_update_outbox_waiting_events', () => outbox.waiting());
  metrics.watch('asset_update_posts_in_flight', () => sender.inFlight());
  metrics.watch('asset_update_posts_waiting', () => sender.waiting());
  const closing = new AbortController();
  const app = createApi({ ...delivering, targetPolicy, readiness, closing: closing.signal });
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
    // Even after the workers were stopped by force, POSTs under way are settled.
    await delivering.close();
  }
  await sender.close();
  await admin.close();
  await connection.close();
  closeDb(db);
  await tracing?.close();
  log.info('ended');
}

async function startWorkersAndSweep(connection: NativeConnection, deps: ActivityDeps & Parts) {
  const { config, temporal, log, metrics } = deps;
  const schedule = createSweepSchedule(temporal, config.TASK_QUEUE, log);
  await ensureSearchAttributes(connection, config.TEMPORAL_NAMESPACE, log);
  await untilAvailable(config.TEMPORAL_ADDRESS, log, () => schedule.ensure());
  const { shutdown, ended, inUse } = await startWorkers(config, connection, deps);
  metrics.watch('asset_update_retries_under_way', () => inUse().retries);
  metrics.watch('asset_update_upkeep_under_way', () => inUse().upkeep);
  metrics.watch('asset_update_sweep_schedule_paused', () => {
    const paused = schedule.isPaused();
    return paused === undefined ? undefined : Number(paused);
  });
  // Temporal may lose its store while workers run, and anybody may change the schedule in its UI.
  const guard = setInterval(() => {
    schedule.ensure().catch((err: unknown) => {
      log.warn({ err }, 'the schedule of the sweep could not be checked; next try in a minute');
    });
  }, 60_000);
  const guarded = ended.finally(() => clearInterval(guard));
  guarded.catch((err: unknown) => log.fatal({ err }, 'the worker failed'));
  return { shutdown, ended: guarded };
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
