import { once, setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { NativeConnection } from '@temporalio/worker';
import { readRedisCertificate } from './addresses.js';
import { createApi, createStartingApi } from './api/app.js';
import { type Role, type StartedParts, startDelivering } from './compose.js';
import { type Config, endsWithinSeconds, redisOptions } from './config.js';
import { createDesk } from './desk/desk.js';
import { createReadiness, listenAdmin, lookEveryMs, type Readiness } from './http/admin.js';
import type { Step } from './http/context.js';
import { connectionLimits, listen } from './http/server.js';
import { createLogger, type Logger } from './log.js';
import { createMetrics } from './metrics.js';
import { openFiles } from './openFiles.js';
import { readTargetPolicy } from './outgoing/address.js';
import { senderOf } from './outgoing/post.js';
import { Reach } from './outgoing/reach.js';
import { product } from './product.js';
import { closeDb, openDb } from './redis/connection/db.js';
import { servesCalls, watchStore } from './redis/connection/needs.js';
import { ignore } from './redis/connection/unavailable.js';
import { getClient } from './redis/records/clients.js';
import { readCounts } from './redis/records/counts.js';
import { joinStore } from './redis/records/installation.js';
import { joinLibraries } from './redis/records/libraries.js';
import { watchCounts, watchStoreHealth, watchTemporal } from './storeMetrics.js';
import { askNamespace, connect, createTemporalClient, replaceable } from './temporal/connection.js';
import { watchFailingWorkflows } from './temporal/failingWorkflows.js';
import { TemporalHealth } from './temporal/health.js';
import { runbookPage } from './web/runbook.js';
import {
  connectNative,
  freeSdkPort,
  installRuntime,
  readSdkMetrics,
  startWorkersAndSweep,
} from './worker.js';

type Failing = ReturnType<typeof watchFailingWorkflows>;

/** How long Temporal may take what the workers did, after the last attempt: their library waits 30 s for a silent server. */
const reportWithinMs = 3000;

/**
 * Runs a role until it is told to end, then stops it in order: accepts no new work, finishes work under way, closes connections.
 * The ports answer from the beginning: health checks as they are, every other call 503 until the store serves.
 * @param ending what ends the process: a signal aborts it by its name, also before this call, a worker by its failure
 */
export async function serve(role: Role, config: Config, ending: AbortController): Promise<void> {
  const log = createLogger(config.LOG_LEVEL, role);
  // ioredis warns there of a password that the server asked nobody for.
  console.warn = (text) => log.warn(String(text));
  // Node would write its own to stderr, as text.
  process.removeAllListeners('warning');
  process.on('warning', ({ name, message }) => log.warn({ name }, message));
  endInTime(log, config, ending.signal);
  try {
    ending.signal.throwIfAborted();
    await run(role, config, log, ending);
  } catch (err) {
    // Told to end while it loaded, or waited for a server.
    if (!ending.signal.aborted) throw err;
  }
  const { reason } = ending.signal;
  if (typeof reason !== 'string') throw reason;
  log.info('ended');
}

async function run(role: Role, config: Config, log: Logger, ending: AbortController): Promise<void> {
  const ended = ending.signal;
  const told = once(ended, 'abort');
  const sdkPort = role === 'api' ? undefined : await freeSdkPort();
  let onFailedTask: Failing['note'] | undefined;
  const sdkMetrics = async () => (sdkPort === undefined ? '' : await readSdkMetrics(sdkPort));
  const health = new TemporalHealth(log);
  const note = async () => health.noteCounters(await sdkMetrics());
  installRuntime(log, sdkPort, (...task) => onFailedTask?.(...task));
  const opened = await open(role, config, log, sdkPort, health);
  const { db, link } = opened;
  let isReady = false;
  const readiness = createReadiness({
    redis: () => servesCalls(db),
    temporal: () => health.look(() => askNamespace(opened.temporal, lookEveryMs)),
    ending: () => !isReady || ended.aborted,
    refused: () => db.health.reasons(),
  });
  watchTemporal(opened.metrics, health, async () => (await readiness()).temporal);
  const { api, admin } = await listenOnPorts(opened, readiness, sdkMetrics);

  const waiting = { config, log, ended, begun() {} };
  const temporalIsAway = new Promise<void>((resolve) => {
    waiting.begun = resolve;
  });
  const native = role === 'api' ? undefined : connectNative(waiting);
  // It is waited for below.
  native?.catch(ignore);
  const secretBox = await joinStore(db, config, log, ended);
  watchStore(db);
  void joinLibraries(db, log);
  warnOfSettings(config, log);

  let workers: Awaited<ReturnType<typeof startWorkersAndSweep>> | undefined;
  const delivering = await startDelivering({ ...opened, secretBox, isWorking: () => workers !== undefined });
  health.count = delivering.minutes.count;
  watchParts(delivering, api !== undefined);
  const becomeReady = () => {
    if (ended.aborted) return;
    isReady = true;
    log.info({ ...(api === undefined ? {} : { port: api.port }), admin_port: admin.port }, 'ready');
  };
  const startsWorkers = async (connection: Promise<NativeConnection>) => {
    const own = await connection;
    ended.throwIfAborted();
    link.replace(own);
    const failing = watchFailingWorkflows(delivering);
    onFailedTask = failing.note;
    const deps = { ...delivering, failing, health, note };
    workers = await startWorkersAndSweep(own, waiting, deps);
    if (role === 'worker') becomeReady();
  };
  const work = native && startsWorkers(native);
  // Without Temporal an API serves, and its process delivers what it takes; a worker alone waits.
  await Promise.race([work, temporalIsAway, told]);
  const closing = new AbortController();
  // Every check of a receiver and every refusal that is held listens: Node warns of more than ten.
  setMaxListeners(0, closing.signal);
  const services = { ...delivering, targetPolicy: opened.targetPolicy, readiness, closing: closing.signal };
  if (!ended.aborted) {
    api?.serve(createApi(services));
    admin.serve((own) => createDesk(services, own));
  }
  if (role !== 'worker') becomeReady();

  work?.then(() => workers?.ended).catch((err: unknown) => ending.abort(err));
  await told;
  api?.drain();
  if (api !== undefined) await sleep(config.SHUTDOWN_DELAY_SECONDS * 1000);
  closing.abort();
  await api?.close();
  await delivering.endStarts();
  workers?.shutdown();
  await endDeliveries(delivering, workers?.ended);
  await admin.close();
  closeDb(db);
  await opened.tracing?.close();
}

/** Opens what a process stands on. Neither Redis nor Temporal need answer yet. */
async function open(
  role: Role,
  config: Config,
  log: Logger,
  sdkPort: number | undefined,
  health: TemporalHealth,
) {
  // OpenTelemetry takes memory and time to load.
  const tracing =
    config.OTEL_TRACES_EXPORTER === 'otlp'
      ? (await import('./tracing.js')).startTracing(product, log)
      : undefined;
  const targetPolicy = readTargetPolicy(config, sdkPort);
  const metrics = createMetrics();
  const db = openDb({ ...redisOptions(config), log, observe: metrics.redisObserver });
  const accountOf = async (client: string) => (await getClient(db, client))?.accountId ?? client;
  const sender = senderOf(config, targetPolicy, new Reach(accountOf));
  const link = replaceable(connect(config));
  const temporal = createTemporalClient(link.connection, config, (call, milliseconds, error) => {
    metrics.temporalAnswered(call, milliseconds, error);
    if (error === undefined) health.answered(call);
    else health.refused(call, error);
  });
  return { role, config, log, tracing, targetPolicy, sender, metrics, db, link, temporal };
}

/** Answers health checks as they are, and every other call 503, until the ports serve what is given to them. */
async function listenOnPorts(
  { role, config, log, metrics, db }: Awaited<ReturnType<typeof open>>,
  readiness: () => Promise<Readiness>,
  sdkMetrics: () => Promise<string>,
) {
  watchStoreHealth(metrics, db.health);
  // Alerts see by these which roles run: also while a process waits for its stores.
  if (role !== 'worker') metrics.watch('asset_update_updates_waiting_calls', () => 0);
  if (role !== 'api') metrics.watch('asset_update_upkeep_under_way', () => 0);
  const endSeconds = config.certificatesEndAtMs / 1000;
  metrics.watch('asset_update_temporal_certificates_end_timestamp_seconds', () => endSeconds);
  const redisEndSeconds = (readRedisCertificate(config)?.endsAtMs ?? Number.POSITIVE_INFINITY) / 1000;
  metrics.watch('asset_update_redis_certificate_end_timestamp_seconds', () => redisEndSeconds);
  if (openFiles < 20_000) log.warn({ open_files: openFiles }, 'connections are fewer: raise ulimit -n');
  const starting = (...own: Step[]) => createStartingApi({ log, metrics, readiness }, ...own);
  const full = () => log.warn({ open: connectionLimits.connections }, 'further connections are closed');
  const api = role === 'worker' ? undefined : await listen(config, starting(), connectionLimits, full);
  const admin = await listenAdmin(config, metrics, readiness, sdkMetrics, { '/runbook': runbookPage });
  admin.serve(starting);
  return { api, admin };
}

function warnOfSettings(config: Config, log: Logger): void {
  if (config.SECRETS_KEY === undefined)
    log.warn('SECRETS_KEY is not set: signing secrets are stored in plain text');
  if (!config.ALLOW_HTTP_TARGETS && config.ALLOWED_TARGET_CIDRS.length === 0) return;
  log.warn(
    { http: config.ALLOW_HTTP_TARGETS, ranges: config.ALLOWED_TARGET_CIDRS },
    'targets other than public https URLs are allowed',
  );
}

function watchParts({ metrics, db, hands, outbox, sender, updateWaits }: StartedParts, isApi: boolean): void {
  watchCounts(metrics, () => readCounts(db));
  metrics.watchPauses(() => hands.pauses());
  metrics.watch('asset_update_clock_seconds', () => Date.now() / 1000);
  metrics.watch('asset_update_claims_under_way', () => hands.underWay());
  metrics.watch('asset_update_outbox_waiting_events', () => outbox.waiting());
  metrics.watch('asset_update_posts_in_flight', () => sender.inFlight());
  metrics.watch('asset_update_posts_waiting', () => sender.waiting());
  if (isApi) metrics.watch('asset_update_updates_waiting_calls', () => updateWaits.waiting());
}

/** Ends attempts under way, for which activities wait, then the workers, unless Temporal takes too long. */
async function endDeliveries({ log, sender, ...delivering }: StartedParts, ended?: Promise<unknown>) {
  const closed = delivering.close();
  const late = closed.then(() => sleep(reportWithinMs, 'late'));
  if ((await Promise.race([ended?.catch(ignore), late])) === 'late')
    log.warn('Temporal did not take the last results in time: another worker will look at them');
  await closed;
  await sender.close();
}

/** Says what ends the process, and cuts it off if it does not end in its time. */
function endInTime(log: Logger, config: Config, ended: AbortSignal): void {
  const seconds = endsWithinSeconds(config);
  const begin = () => {
    if (typeof ended.reason === 'string') log.info({ signal: ended.reason }, 'ending');
    setTimeout(() => {
      log.error({ seconds }, 'the process did not end in time: it is cut off');
      process.exit(1);
    }, seconds * 1000).unref();
  };
  if (ended.aborted) begin();
  else ended.addEventListener('abort', begin);
}
