import { type NativeConnection, Runtime, Worker, type WorkerDeploymentOptions } from '@temporalio/worker';
import { createActivities } from '../activities/index.js';
import type { Config } from './config.js';
import type { Logger } from './log.js';
import { workflowBundlePath } from './temporal/bundle.js';
import { sdkTelemetry } from './temporal/sdkMetrics.js';
import { upkeepQueueOf } from './temporal/workflowIds.js';
import type { ActivityDeps } from './upkeep/deps.js';

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
