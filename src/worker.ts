import { type NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { createActivities } from '../activities/index.js';
import type { Config } from './config.js';
import type { Logger } from './log.js';
import { workflowBundlePath } from './temporal/bundle.js';
import { upkeepQueueOf } from './temporal/upkeepQueue.js';
import type { ActivityDeps } from './upkeep/deps.js';

/** Routes the SDK's own log through ours. Once per process, before the first connection. */
export function installRuntime(log: Logger): void {
  const at =
    (level: 'trace' | 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, meta?: Record<string, unknown>) =>
      log[level](withoutPayloads(meta), message);
  Runtime.install({
    logger: {
      trace: at('trace'),
      debug: at('debug'),
      info: at('debug'),
      // The worker for upkeep has none, and is meant to.
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
  });
}

function withoutPayloads(meta: Record<string, unknown> | undefined): Record<string, unknown> {
  if (meta === undefined) return {};
  const { workflowId, runId, activityType, attempt, taskQueue } = meta;
  const err = meta.error instanceof Error ? { reason: meta.error.message } : {};
  return { workflowId, runId, activityType, attempt, taskQueue, ...err };
}

/** How many activities run in one process at the same time, those of receivers that never answer among them. */
export interface Slots {
  /** Of `enrichment`: what its first moment has not finished. */
  retries: number;
  /** Everything else: the sweep, catch-up, redeliveries, claims. */
  upkeep: number;
}

// A drain sleeps most of its time: many down or slow clients must not use up the slots of others.
const plenty: Slots = { retries: 2000, upkeep: 2000 };

export interface Running {
  /** Takes nothing new; what is under way finishes. */
  shutdown(): void;
  /** @throws what broke a worker off */
  ended: Promise<void>;
  /** Slots in use. */
  inUse(): Slots;
}

/**
 * Two workers in one process: a hanging receiver's retries hold the slots of the first, so that nothing that keeps the
 * promise may wait there ({@link upkeepQueueOf}).
 */
export async function startWorkers(
  config: Config,
  connection: NativeConnection,
  deps: ActivityDeps,
  slots: Slots = plenty,
): Promise<Running> {
  const shared = {
    connection,
    namespace: config.TEMPORAL_NAMESPACE,
    dataConverter: deps.temporal.options.dataConverter,
    // All of them in both: an earlier release's workflows have everything wait in one queue.
    activities: createActivities(deps, slots.upkeep),
    // The POST in flight finishes (its timeout, and the time to settle it); then whatever is left is cut (fact 6).
    shutdownGraceTime: deps.delivery.leaseMs,
    shutdownForceTime: deps.delivery.leaseMs + 10_000,
  };
  const retries = await Worker.create({
    ...shared,
    taskQueue: config.TASK_QUEUE,
    workflowBundle: { codePath: workflowBundlePath() },
    maxConcurrentActivityTaskExecutions: slots.retries,
    maxConcurrentLocalActivityExecutions: 500,
    maxConcurrentWorkflowTaskExecutions: 200,
    maxCachedWorkflows: 2000,
    // Workflow code only decides what comes next; a second thread costs more than it does (docs/benchmarks.md).
    workflowThreadPoolSize: 1,
  });
  const upkeep = await Worker.create({
    ...shared,
    taskQueue: upkeepQueueOf(config.TASK_QUEUE),
    maxConcurrentActivityTaskExecutions: slots.upkeep,
  });
  const both = [retries, upkeep];
  const shutdown = () => {
    for (const worker of both) if (worker.getState() === 'RUNNING') worker.shutdown();
  };
  return {
    shutdown,
    ended: Promise.all(both.map((worker) => worker.run())).then(() => undefined),
    inUse: () => ({
      retries: retries.getStatus().numInFlightNonLocalActivities,
      upkeep: upkeep.getStatus().numInFlightNonLocalActivities,
    }),
  };
}
