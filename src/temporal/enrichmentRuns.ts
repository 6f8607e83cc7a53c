import type { Client } from '@temporalio/client';
import { decodeFromPayloadsAtIndex } from '@temporalio/common/lib/internal-non-workflow/index.js';
import type { ClaimedEvent } from '../redis/owed/claim.js';
import { isNotFound } from './unavailable.js';

/** A run of the workflow `enrichment`, as Temporal lists it. */
export interface EnrichmentRun {
  workflowId: string;
  runId: string;
  /** ms */
  startedAt: number;
  /** ms; undefined while it runs. */
  closedAt?: number;
  completed: boolean;
}

const pageSize = 500;

/**
 * Lists runs in pages, newest first, one call for each. Temporal lists a run some time after it began.
 * @param condition a visibility query, added to the type and the task queue
 */
export async function* enrichmentRuns(
  temporal: Client,
  taskQueue: string,
  condition?: string,
): AsyncGenerator<EnrichmentRun[]> {
  const query = [
    "WorkflowType = 'enrichment'",
    `TaskQueue = '${taskQueue}'`,
    ...(condition === undefined ? [] : [`(${condition})`]),
  ].join(' AND ');
  let nextPageToken: Uint8Array | undefined;
  do {
    const page = await temporal.workflowService.listWorkflowExecutions({
      namespace: temporal.options.namespace,
      query,
      pageSize,
      ...(nextPageToken === undefined ? {} : { nextPageToken }),
    });
    yield (page.executions ?? []).map(runOf);
    nextPageToken = page.nextPageToken ?? undefined;
  } while (nextPageToken !== undefined && nextPageToken.length > 0);
}

type Listed = NonNullable<
  Awaited<ReturnType<Client['workflowService']['listWorkflowExecutions']>>['executions']
>[number];

/** `temporal.api.enums.v1.WorkflowExecutionStatus` */
const completed = 2;

function runOf(listed: Listed): EnrichmentRun {
  const closedAt = msOf(listed.closeTime);
  return {
    workflowId: listed.execution?.workflowId ?? '',
    runId: listed.execution?.runId ?? '',
    startedAt: msOf(listed.startTime) ?? 0,
    ...(closedAt === undefined ? {} : { closedAt }),
    completed: listed.status === completed,
  };
}

function msOf(time: Listed['closeTime']): number | undefined {
  if (time === undefined || time === null) return undefined;
  return Number(time.seconds ?? 0) * 1000 + Math.floor((time.nanos ?? 0) / 1e6);
}

/** Reads the events in a run's input, by one call. Undefined if Temporal no longer has the run. */
export async function eventsOf(
  temporal: Client,
  run: Pick<EnrichmentRun, 'workflowId' | 'runId'>,
): Promise<ClaimedEvent[] | undefined> {
  try {
    const { history } = await temporal.workflowService.getWorkflowExecutionHistory({
      namespace: temporal.options.namespace,
      execution: { workflowId: run.workflowId, runId: run.runId },
      maximumPageSize: 1,
    });
    const payloads = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
    if (payloads.length === 0) throw new Error(`${run.workflowId} has no input`);
    const input = await decodeFromPayloadsAtIndex<{ events: ClaimedEvent[] }>(
      temporal.options.loadedDataConverter,
      0,
      payloads,
      { type: 'workflow', namespace: temporal.options.namespace, workflowId: run.workflowId },
    );
    return input.events;
  } catch (err) {
    if (isNotFound(err)) return undefined;
    throw err;
  }
}
