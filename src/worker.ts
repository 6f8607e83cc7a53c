import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  NativeConnection,
  Runtime,
  type TelemetryOptions,
  Worker,
  type WorkerDeploymentOptions,
} from '@temporalio/worker';
import { type ActivityDeps, createActivities } from '../activities/index.js';
import type { Config } from './config.js';
import { type Logger, messageOf } from './log.js';
import { workflowBundlePath } from './temporal/bundle.js';
import { upkeepQueueOf } from './temporal/workflowIds.js';

/**
 * Routes the SDK's log through the service's. Call it once per process, before the first connection.
 * @param metricsPort where on 127.0.0.1 the SDK serves its metrics; without one it counts nothing
 */
export function installRuntime(log: Logger, metricsPort?: number): void {
  const at =
    (level: 'trace' | 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, meta?: Record<string, unknown>) =>
      log[level](withoutPayloads(meta), message);
  Runtime.install({
    logger: {
      trace: at('trace'),
      debug: at('debug'),
      info: at('debug'),
      // The worker for upkeep has no workflows on purpose.
      warn: (message, meta) =>
        at(message.startsWith('No workflows registered') ? 'debug' : 'warn')(message, meta),
      error: at('error'),
      log: (level, message, meta) =>
        log[level === 'WARN' ? 'warn' : level === 'ERROR' ? 'error' : 'debug'](
          withoutPayloads(meta),
          message,
        ),
    },
    shutdownSignals: [],
    ...(metricsPort !== undefined && { telemetryOptions: sdkTelemetry(metricsPort) }),
  });
}

function withoutPayloads(meta: Record<string, unknown> | undefined): Record<string, unknown> {
  if (meta === undefined) return {};
  const { workflowId, runId, activityType, attempt, taskQueue } = meta;
  const err = meta.error instanceof Error ? { reason: meta.error.message } : {};
  return { workflowId, runId, activityType, attempt, taskQueue, ...err };
}

/*
 * The metrics of Temporal's SDK: its native part serves them on a separate port of 127.0.0.1; a scrape of this process
 * fetches them from there, so that there is one address to scrape.
 */
const answerWithinMs = 1000;

/** Returns a free port of 127.0.0.1. */
export async function freeSdkPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Names and units as Prometheus has them: seconds, `_total` for counters. */
function sdkTelemetry(port: number): TelemetryOptions {
  const bindAddress = `127.0.0.1:${port}`;
  return {
    metrics: {
      prometheus: {
        bindAddress,
        countersTotalSuffix: true,
        unitSuffix: true,
        useSecondsForDurations: true,
      },
    },
  };
}

/** Returns the SDK's metrics as text; empty if there are none in time, so that the others are still shown. */
export async function readSdkMetrics(port: number): Promise<string> {
  try {
    const signal = AbortSignal.timeout(answerWithinMs);
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
export async function connectNative(config: Config, log: Logger): Promise<NativeConnection> {
  const options = {
    ...config.temporalConnection,
    grpcCompression: { codec: 'none' as const },
  };
  // A closed port fails immediately: the process waits, and logs for which server.
  for (let tries = 0; ; tries++) {
    try {
      return await NativeConnection.connect(options);
    } catch (err) {
      const names = { address: config.TEMPORAL_ADDRESS, reason: messageOf(err) };
      if (tries % 20 === 0) log.warn(names, 'waiting for Temporal');
      await sleep(250);
    }
  }
}

/** How many activities one process runs at the same time. */
export interface Slots {
  /** Slots for `awaitDelivery`, each for as long as an attempt may take. */
  retries: number;
  /** Slots for the sweep and for catch-up, each for seconds. */
  upkeep: number;
}

const defaultSlots: Slots = { retries: 2000, upkeep: 2000 };

export interface Running {
  /** Accepts no new work; work under way finishes. */
  shutdown(): void;
  /** Resolves once every worker has ended. @throws why a worker failed */
  ended: Promise<void>;
  /** Returns the slots in use. */
  inUse(): Slots;
}

/**
 * Starts two workers in one process. Retries to a hanging receiver hold slots of the first, so the sweep and catch-up
 * must not wait there ({@link upkeepQueueOf}).
 */
export async function startWorkers(
  config: Config,
  connection: NativeConnection,
  deps: ActivityDeps,
  slots: Slots = defaultSlots,
): Promise<Running> {
  const shared = {
    connection,
    namespace: config.TEMPORAL_NAMESPACE,
    ...versionOf(config),
    activities: createActivities(deps),
    // A POST in flight finishes within its lease; the rest is cut off.
    shutdownGraceTime: deps.settings.leaseMs,
    shutdownForceTime: deps.settings.leaseMs + 10_000,
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
  const all = [retries, upkeep];
  const shutdown = () => {
    for (const worker of all) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  return {
    shutdown,
    ended: Promise.all(all.map((worker) => worker.run())).then(() => undefined),
    inUse: () => ({
      retries: retries.getStatus().numInFlightNonLocalActivities,
      upkeep: upkeep.getStatus().numInFlightNonLocalActivities,
    }),
  };
}

/** Makes the workers a version of their deployment if the operator names one. Every workflow moves on to the current version. */
function versionOf(config: Config): { workerDeploymentOptions?: WorkerDeploymentOptions } {
  const buildId = config.TEMPORAL_WORKER_BUILD_ID;
  if (buildId === undefined) return {};
  // Temporal refuses both characters in a name.
  const deploymentName = config.TEMPORAL_DEPLOYMENT_NAME ?? config.TASK_QUEUE.replaceAll(/[.:]/g, '-');
  return {
    workerDeploymentOptions: {
      version: { deploymentName, buildId },
      useWorkerVersioning: true,
      defaultVersioningBehavior: 'AUTO_UPGRADE',
    },
  };
}
