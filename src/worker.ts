import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { hostname } from 'node:os';
import { asyncLocalStorage } from '@temporalio/activity';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { type ActivityDeps, createActivities } from '../activities/index.js';
import type { Parts } from './compose.js';
import { type Config, ConfigError } from './config.js';
import { type Logger, messageOf } from './log.js';
import { storeIds } from './redis/connection/mark.js';
import { joinProcesses } from './redis/records/processes.js';
import { workflowBundlePath } from './temporal/bundle.js';
import { inWords, untilAvailable, type Waiting } from './temporal/connection.js';
import { disableWhenUnused } from './temporal/contexts.js';
import type { watchFailingWorkflows } from './temporal/failingWorkflows.js';
import { type TemporalHealth, workerCalls } from './temporal/health.js';
import { reasonOf, reasonsOf } from './temporal/refusal.js';
import { ensureSearchAttributes } from './temporal/searchAttributes.js';
import { createSweepSchedule } from './temporal/sweepSchedule.js';
import { upkeepQueueOf } from './temporal/workflowIds.js';

/**
 * Routes the SDK's log through the service's, without payloads. Call it once per process, before the first connection.
 * @param metricsPort where on 127.0.0.1 the SDK serves its metrics; without a port the SDK counts nothing
 * @param failedTask is told of each workflow task that fails
 */
export function installRuntime(
  log: Logger,
  metricsPort?: number,
  failedTask?: (runId: string, reason: string | undefined) => unknown,
): void {
  const logger = new DefaultLogger('TRACE', ({ level, message, meta = {} }) => {
    const { workflowId, runId, activityType, attempt, taskQueue, error } = meta;
    if (message.startsWith('Failing workflow task') && failedTask !== undefined) {
      // The library tells the failure as its debugger would.
      const reason = /message: ("(?:[^"\\]|\\.)*")/.exec(String(meta.failure))?.[1];
      return void failedTask(runId, reason);
    }
    // Of a failed call only the code: the rest quotes the server.
    const [says = '', status = error] = message.split(/:? (?=TonicError\(|Status \{)/);
    const isOfCall = !(error instanceof Error) || error.name === 'TransportError';
    const reason = isOfCall ? /code: '?(\w[\w ]*)/.exec(String(status))?.[1] : error.message;
    // The worker for upkeep has no workflows on purpose. In an outage the first retries of each call say enough.
    const isExpected = /^No workflows registered|retried ([7-9]|\d\d+) times$/.test(message);
    const as = isExpected ? 'debug' : levels[level];
    log[as]({ workflowId, runId, activityType, attempt, taskQueue, reason }, says);
  });
  // Names and units as Prometheus has them: seconds, `_total` for counters.
  const units = { countersTotalSuffix: true, unitSuffix: true, useSecondsForDurations: true };
  const prometheus = { bindAddress: `127.0.0.1:${metricsPort}`, ...units };
  // Without `forward` the SDK's core writes lines of its own to stdout.
  const logging = { forward: {}, filter: { core: 'WARN', other: 'ERROR' } } as const;
  const metrics = metricsPort === undefined ? {} : { metrics: { prometheus } };
  Runtime.install({ logger, shutdownSignals: [], telemetryOptions: { logging, ...metrics } });
}

const levels = { TRACE: 'trace', DEBUG: 'debug', INFO: 'debug', WARN: 'warn', ERROR: 'error' } as const;

/** Returns a free port for the metrics of Temporal's SDK: a scrape of this process fetches them from there. */
export async function freeSdkPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Returns the SDK's metrics as text; empty if none come in time, so that the service's own are still shown. */
export async function readSdkMetrics(port: number): Promise<string> {
  try {
    const signal = AbortSignal.timeout(1000);
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { signal });
    return answer.ok ? await answer.text() : '';
  } catch {
    return '';
  }
}

/**
 * Connects a worker; a client over this connection may start workflows eagerly. Waits until the server answers. Calls are
 * not compressed: the server is near, so time matters more than bytes.
 */
export function connectNative(waiting: Waiting): Promise<NativeConnection> {
  const options = { ...waiting.config.temporalConnection, grpcCompression: { codec: 'none' as const } };
  return untilAvailable(waiting, () => NativeConnection.connect(options));
}

/** Rejects when a worker has failed: its `run` then waits for the end of polls that may not come. Keeps no process from its end. */
function failureOf(workers: readonly Worker[]): Promise<never> {
  return new Promise((_, reject) => {
    const timer = setInterval(() => {
      if (workers.every((worker) => worker.getState() === 'STOPPED')) clearInterval(timer);
      if (!workers.some((worker) => worker.getState() === 'FAILED')) return;
      clearInterval(timer);
      reject(new Error("a worker of Temporal's library has failed"));
    }, 1000).unref();
  });
}

/**
 * Starts two workers in one process. Retries to a hanging receiver hold slots of the first, so the sweep and catch-up
 * must not wait there ({@link upkeepQueueOf}).
 * @param slots how many activities of each worker run at the same time
 */
export async function startWorkers(
  config: Config,
  connection: NativeConnection,
  deps: ActivityDeps,
  slots = { retries: 2000, upkeep: 2000 },
) {
  disableWhenUnused(asyncLocalStorage);
  disableWhenUnused(connection.callContextStorage);
  const identity = `${process.pid}@${hostname()}`;
  const shared = {
    connection,
    identity,
    namespace: config.TEMPORAL_NAMESPACE,
    activities: createActivities(deps),
    // A POST in flight ends within its lease; whatever still runs after that is cut off.
    shutdownGraceTime: deps.db.settings.leaseMs,
    shutdownForceTime: deps.db.settings.leaseMs + 10_000,
    // Workflow code has no loop that could not end. The SDK breaks it off after 5 s of the machine's clock, also where the process stood
    // still meanwhile, and Node then ends the whole process (nodejs/node#38503). An option without a type: the SDK's own for debugging.
    isolateExecutionTimeout: '1 hour',
  };
  const retries = await Worker.create({
    ...shared,
    taskQueue: config.TASK_QUEUE,
    workflowBundle: { codePath: workflowBundlePath() },
    maxConcurrentActivityTaskExecutions: slots.retries,
    maxConcurrentLocalActivityExecutions: 500,
    maxConcurrentWorkflowTaskExecutions: 200,
    maxCachedWorkflows: 2000,
    // Workflow code does little work; a second thread would cost more than it gains (docs/benchmarks/decisions.md).
    workflowThreadPoolSize: 1,
  });
  const upkeep = await Worker.create({
    ...shared,
    taskQueue: upkeepQueueOf(config.TASK_QUEUE),
    maxConcurrentActivityTaskExecutions: slots.upkeep,
  });
  const workers = [retries, upkeep];
  // Temporal names those that asked for work in the last minutes, whether they still run or not.
  const presence = await joinProcesses(deps.db, deps.log, deps.db.global.workers, identity);
  const running = Promise.race([Promise.all(workers.map((worker) => worker.run())), failureOf(workers)]);
  return {
    /** Accepts no new work; work under way finishes. */
    shutdown() {
      void presence.close();
      for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown();
    },
    /** Resolves once every worker has ended. Rejects with the reason why a worker failed. */
    ended: running.then(() => undefined).finally(presence.close),
    inUse: () => ({
      retries: retries.getStatus().numInFlightNonLocalActivities,
      upkeep: upkeep.getStatus().numInFlightNonLocalActivities,
    }),
  };
}

type Failing = ReturnType<typeof watchFailingWorkflows>;

/** Temporal may lose its store, or be changed by anybody. */
const guardEveryMs = 15_000;
/** Temporal may refuse the worker, whose library then says nothing for a minute. */
const noteEveryMs = 5000;

/**
 * Starts the workers once Temporal has what they need, watches both from then on, and says why Temporal refuses a worker.
 * @throws as untilAvailable, also the reason why the process ends
 */
export async function startWorkersAndSweep(
  connection: NativeConnection,
  waiting: Waiting,
  deps: ActivityDeps & Parts & { failing: Failing; health: TemporalHealth; note: () => Promise<void> },
) {
  const { config, temporal, log, metrics, failing, health, note } = deps;
  const schedule = createSweepSchedule(temporal, config.TASK_QUEUE, log, () => storeIds(deps.db));
  const checks = {
    'search attributes': () => ensureSearchAttributes(connection, config.TEMPORAL_NAMESPACE, log),
    'schedule of the sweep': schedule.ensure,
  };
  const ensureBoth = async () => {
    for (const check of Object.values(checks)) await check();
  };
  await untilAvailable(waiting, ensureBoth);
  waiting.ended.throwIfAborted();
  const why = (err: unknown) => inWords(err, config);
  const { shutdown, ended, inUse } = await startWorkers(config, connection, deps);
  metrics.watch('asset_update_retries_under_way', () => inUse().retries);
  metrics.watch('asset_update_upkeep_under_way', () => inUse().upkeep);
  metrics.watch('asset_update_sweep_schedule_paused', () => {
    const paused = schedule.isPaused();
    return paused === undefined ? undefined : Number(paused);
  });
  metrics.watch('asset_update_failing_workflows', failing.count);
  const noting = setInterval(note, noteEveryMs);
  const guard = setInterval(async () => {
    for (const [call, check] of Object.entries({ ...checks, 'workflows whose tasks fail': failing.look }))
      try {
        await check();
        health.answered(call);
      } catch (err) {
        health.refused(call, reasonOf(err) ?? (err instanceof ConfigError ? 'invalid' : 'away'), true);
        log.warn({ call, reason: messageOf(await why(err)) }, 'Temporal does not serve the worker');
      }
  }, guardEveryMs);
  // The error of a worker that Temporal refuses does not say so.
  const failWithReason = async (err: unknown) => {
    await note();
    const [refused] = health.refusing(workerCalls);
    const says = `Temporal at ${config.TEMPORAL_ADDRESS} refuses the worker (${refused?.call}). `;
    const told = refused && new ConfigError(says + reasonsOf(refused.reason).join(' '));
    throw told ?? (await ensureBoth().then(() => err, why));
  };
  const guarded = ended.catch(failWithReason).finally(() => [guard, noting].forEach(clearInterval));
  guarded.catch((err: unknown) => log.fatal({ err }, 'the worker failed'));
  return { shutdown, ended: guarded };
}
