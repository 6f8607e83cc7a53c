/** Workflows whose tasks fail: this code cannot read what another release has begun, and Temporal tries again for ever. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { Logger } from '../log.js';
import { failedTasks } from '../redis/records/minutes.js';
import { grpcCodeOf } from './refusal.js';

const maxKnown = 100;
/** NOT_FOUND of gRPC. */
const notFound = 5;

interface Deps {
  temporal: Client;
  log: Logger;
  minutes: { count(field: string): unknown };
}

/** Notes the workflows whose tasks fail in this process. */
export function watchFailingWorkflows({ temporal, log, minutes }: Deps) {
  /** By run. */
  const failing = new Map<string, string>();
  return {
    /** A task has failed; Temporal's library knows its run only. */
    async note(runId: string, reason: string | undefined): Promise<void> {
      const id = failing.get(runId) ?? (await idOf(temporal, runId).catch(() => undefined));
      log.error({ workflow_id: id, run_id: runId, reason }, 'a workflow task failed: Temporal retries it');
      if (id === undefined || failing.size >= maxKnown) return;
      failing.set(runId, id);
      minutes.count(`${failedTasks}${id}`);
    },
    /** Forgets those that go on, have ended or are gone: deleted, or lost with Temporal's database. @throws errors of Temporal */
    async look(): Promise<void> {
      for (const [runId, id] of failing)
        try {
          if ((await explainTasks(temporal, id, runId)) === undefined) failing.delete(runId);
        } catch (err) {
          if (grpcCodeOf(err) !== notFound) throw err;
          failing.delete(runId);
        }
    },
    count: () => failing.size,
  };
}

/** A workflow that has just begun is listed a moment later. */
const listed = { tries: 20, everyMs: 500 };

async function idOf({ workflow }: Client, runId: string): Promise<string | undefined> {
  for (let tries = 0; tries < listed.tries; tries++) {
    for await (const { workflowId } of workflow.list({ query: `RunId = "${runId}"` })) return workflowId;
    await sleep(listed.everyMs, undefined, { ref: false });
  }
  return undefined;
}

/** Returns why the tasks of a workflow fail; undefined if they do not. @throws errors of Temporal */
export async function explainTasks({ workflowService, options }: Client, workflowId: string, runId = '') {
  const asked = { namespace: options.namespace, execution: { workflowId, runId } };
  const { pendingWorkflowTask } = await workflowService.describeWorkflowExecution(asked);
  if ((pendingWorkflowTask?.attempt ?? 0) <= 1) return undefined;
  // Only the first failure in a row is in the history.
  const { history } = await workflowService.getWorkflowExecutionHistoryReverse({
    ...asked,
    maximumPageSize: 10,
  });
  const failed = history?.events?.find((event) => event.workflowTaskFailedEventAttributes);
  return failed?.workflowTaskFailedEventAttributes?.failure?.message ?? 'they end without an answer';
}
