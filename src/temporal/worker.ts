import { type NativeConnection, Runtime, Worker } from '@temporalio/worker';
import type { ActivityDeps } from '../../activities/deps.js';
import { createActivities } from '../../activities/index.js';
import type { Config } from '../config.js';
import type { Logger } from '../log.js';
import { workflowBundlePath } from './bundle.js';

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
      warn: at('warn'),
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

export async function createWorker(
  config: Config,
  connection: NativeConnection,
  deps: ActivityDeps,
): Promise<Worker> {
  return await Worker.create({
    connection,
    namespace: config.TEMPORAL_NAMESPACE,
    taskQueue: config.TASK_QUEUE,
    workflowBundle: { codePath: workflowBundlePath() },
    activities: createActivities(deps),
    // A drain sleeps most of its time: many down or slow clients must not use up the slots of others.
    maxConcurrentActivityTaskExecutions: 2000,
    maxConcurrentLocalActivityExecutions: 500,
    maxConcurrentWorkflowTaskExecutions: 200,
    maxCachedWorkflows: 2000,
    // Workflow code only decides what comes next; a second thread costs more than it does (docs/benchmarks.md).
    workflowThreadPoolSize: 1,
    // The POST in flight finishes (its timeout, and the time to settle it); then whatever is left is cut (fact 6).
    shutdownGraceTime: deps.delivery.leaseMs,
    shutdownForceTime: deps.delivery.leaseMs + 10_000,
  });
}
