/** Checks of Temporal: the namespace, the sweep's schedule and the workers. */
import type { Client } from '@temporalio/client';
import type { Config } from '../../config.js';
import { workflowIds } from '../../temporal/workflowIds.js';
import { countWorkers } from '../servers.js';
import { span } from '../terminal/words.js';
import { type Finding, fail, ok, warn } from './finding.js';

/** gRPC */
const notFound = 5;

export async function checkTemporal(temporal: Client, config: Config): Promise<Finding[]> {
  const { TEMPORAL_NAMESPACE: namespace, TASK_QUEUE: taskQueue } = config;
  try {
    return [
      await ofNamespace(temporal, namespace),
      await ofSweep(temporal, taskQueue),
      await ofWorkers(temporal, config),
    ];
  } catch (err) {
    const { isGrpcServiceError } = await import('@temporalio/client');
    if (!isGrpcServiceError(err) || err.code !== notFound) throw err;
    const todo = `temporal operator namespace create --namespace ${namespace} --retention 168h, or correct TEMPORAL_NAMESPACE.`;
    return [fail('temporal namespace', `There is no namespace ${namespace}.`, todo)];
  }
}

async function ofNamespace({ workflowService }: Client, namespace: string): Promise<Finding> {
  const check = 'temporal namespace';
  const { config } = await workflowService.describeNamespace({ namespace });
  const retentionMs = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) * 1000;
  const found = `${namespace} keeps closed workflows for ${span(retentionMs)}.`;
  if (retentionMs >= 86_400_000) return ok(check, found);
  const todo = `After that they can no longer be looked up. temporal operator namespace update --namespace ${namespace} --retention 168h`;
  return warn(check, found, todo);
}

/** The sweep starts every 15 seconds: three starts missed. */
const sweepLateMs = 60_000;

async function ofSweep(temporal: Client, taskQueue: string): Promise<Finding> {
  const check = 'temporal sweep';
  const scheduleId = workflowIds(taskQueue).sweep;
  const { ScheduleNotFoundError } = await import('@temporalio/client');
  try {
    const { state, info } = await temporal.schedule.getHandle(scheduleId).describe();
    if (state.paused) {
      const found = `The schedule of the sweep is paused: ${state.note ?? ''}`;
      return fail(check, found, `temporal schedule toggle --unpause --schedule-id ${scheduleId}`);
    }
    const started = info.recentActions.map((action) => action.takenAt.getTime());
    const ranAt = Math.max(info.createdAt.getTime(), info.lastUpdatedAt?.getTime() ?? 0, ...started);
    const ago = Math.max(Date.now() - ranAt, 0);
    const found = `The sweep last ran ${span(ago)} ago; it is due every 15 s.`;
    // While a long sweep runs, no other is started.
    if (info.runningActions.length > 0 || ago <= sweepLateMs) return ok(check, found);
    return fail(check, found, "Check the schedule in Temporal's UI, and the server's log.");
  } catch (err) {
    if (!(err instanceof ScheduleNotFoundError)) throw err;
    const found = 'There is no schedule for the sweep; a worker creates it when it starts.';
    return fail(check, found, 'Start a worker with the same TASK_QUEUE.');
  }
}

async function ofWorkers(temporal: Client, config: Config): Promise<Finding> {
  const count = await countWorkers(temporal, config);
  if (count > 0) return ok('temporal workers', `${count} asked for work in the last 90 s.`);
  const todo = `Start one (npm run worker), with TASK_QUEUE=${config.TASK_QUEUE}.`;
  return fail('temporal workers', 'No worker asks for work.', todo);
}
