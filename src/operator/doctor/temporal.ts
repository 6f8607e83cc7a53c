/** Checks of Temporal: its server, the namespace, and the service's attributes, schedule and workers. */
import type { Client } from '@temporalio/client';
import { isGrpcServiceError } from '@temporalio/client';
import type { Config } from '../../config.js';
import { searchAttributesAmiss } from '../../temporal/searchAttributes.js';
import { countWorkers } from '../health/ownHealth.js';
import { readSweepState, sweepInWords } from '../health/sweepState.js';
import { span } from '../terminal/moment.js';
import { clockFinding, readTemporalClock } from './clocks.js';
import { type Finding, fail, isAtLeast, ok, warn } from './finding.js';

const notFound = 5;

export async function checkTemporal(temporal: Client, config: Config): Promise<Finding[]> {
  const { TEMPORAL_NAMESPACE: namespace, TASK_QUEUE: taskQueue } = config;
  const server = [await ofVersion(temporal)];
  try {
    server.push(...(await ofNamespace(temporal, namespace)));
  } catch (err) {
    if (!isGrpcServiceError(err) || err.code !== notFound) throw err;
    const todo = `temporal operator namespace create --namespace ${namespace} --retention 168h, or correct TEMPORAL_NAMESPACE.`;
    return [...server, fail('temporal namespace', `There is no namespace ${namespace}.`, todo)];
  }
  return [
    ...server,
    await ofClock(temporal, config),
    await ofSearchAttributes(temporal, namespace),
    await ofSweep(temporal, taskQueue),
    await ofWorkers(temporal, config),
  ];
}

async function ofVersion({ workflowService }: Client): Promise<Finding> {
  const { serverVersion } = await workflowService.getSystemInfo({});
  // The sweep replaces a catch-up with TERMINATE_EXISTING, which came with 1.24.
  if (isAtLeast(serverVersion, [1, 24])) return ok('temporal version', `Temporal ${serverVersion}.`);
  return fail(
    'temporal version',
    `Temporal ${serverVersion} is too old.`,
    'Use Temporal server 1.24 or newer.',
  );
}

async function ofNamespace({ workflowService }: Client, namespace: string): Promise<Finding[]> {
  const { config } = await workflowService.describeNamespace({ namespace });
  const retentionMs = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) * 1000;
  const found = `Closed workflows are kept for ${span(retentionMs)}.`;
  const todo = `After that they can no longer be looked up. temporal operator namespace update --namespace ${namespace} --retention 168h`;
  return [
    ok('temporal namespace', `There is a namespace ${namespace}.`),
    retentionMs < 86_400_000 ? warn('temporal retention', found, todo) : ok('temporal retention', found),
  ];
}

async function ofClock(temporal: Client, config: Config): Promise<Finding> {
  const check = 'temporal clock';
  const reading = await readTemporalClock(temporal, config.TEMPORAL_NAMESPACE, config.TASK_QUEUE);
  if (reading !== undefined) return clockFinding(check, "Temporal's", reading);
  return warn(check, 'Its time could not be read.', "Compare its host's clock with this one's.");
}

async function ofSearchAttributes({ connection }: Client, namespace: string): Promise<Finding> {
  const check = 'temporal search attributes';
  const { missing, others: other, isListed } = await searchAttributesAmiss(connection, namespace);
  if (other.length > 0) {
    const todo =
      'No workflow can be started with these. Use a separate namespace, or remove them and let a worker create them.';
    return fail(check, `Of another type: ${other.join(', ')}.`, todo);
  }
  if (missing.length > 0) {
    const todo = isListed
      ? 'A worker creates them when it starts: start one.'
      : 'This server does not allow adding them from here: use its own command (tcld, for Temporal Cloud).';
    return fail(check, `Missing: ${missing.join(', ')}.`, todo);
  }
  return ok(check, 'All of them exist.');
}

async function ofSweep(temporal: Client, taskQueue: string): Promise<Finding> {
  const sweep = await readSweepState(temporal, taskQueue);
  const found = sweepInWords(sweep);
  switch (sweep.kind) {
    case 'running':
      return ok('temporal sweep', found);
    case 'absent':
      return fail('temporal sweep', found, 'Start a worker with the same TASK_QUEUE.');
    case 'paused':
      return fail(
        'temporal sweep',
        found,
        `temporal schedule toggle --unpause --schedule-id sweep/${taskQueue}`,
      );
    case 'late':
      return fail('temporal sweep', found, "Check the schedule in Temporal's UI, and the server's log.");
  }
}

async function ofWorkers(temporal: Client, config: Config): Promise<Finding> {
  const count = await countWorkers(temporal, config);
  if (count > 0) return ok('temporal workers', `${count} asked for work in the last 90 s.`);
  const todo = `Start one (npm run worker), with TASK_QUEUE=${config.TASK_QUEUE}.`;
  return fail('temporal workers', 'No worker asks for work.', todo);
}
