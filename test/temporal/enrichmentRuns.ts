import { type Client, isGrpcServiceError } from '@temporalio/client';
import { decodeFromPayloadsAtIndex } from '@temporalio/common/lib/internal-non-workflow/index.js';
import type { EnrichmentInput } from '../../src/delivery/workflowStarts.js';

/** A run of the workflow `enrichment`, as Temporal lists it. */
export interface EnrichmentRun {
  workflowId: string;
  runId: string;
}

/** Lists runs in pages, newest first. Temporal lists a run some time after it began. */
export async function* enrichmentRuns(temporal: Client, taskQueue: string): AsyncGenerator<EnrichmentRun[]> {
  let nextPageToken: Uint8Array | undefined;
  do {
    const page = await temporal.workflowService.listWorkflowExecutions({
      namespace: temporal.options.namespace,
      query: `WorkflowType = 'enrichment' AND TaskQueue = '${taskQueue}'`,
      pageSize: 500,
      nextPageToken,
    });
    yield (page.executions ?? []).map(({ execution }) => ({
      workflowId: execution?.workflowId ?? '',
      runId: execution?.runId ?? '',
    }));
    nextPageToken = page.nextPageToken ?? undefined;
  } while (nextPageToken !== undefined && nextPageToken.length > 0);
}

/** Reads the events in a run's input, by one call. Undefined if Temporal no longer has the run. */
export async function eventsOf(
  temporal: Client,
  { workflowId, runId }: EnrichmentRun,
): Promise<EnrichmentInput['events'] | undefined> {
  const { loadedDataConverter, namespace } = temporal.options;
  try {
    const { history } = await temporal.workflowService.getWorkflowExecutionHistory({
      namespace,
      execution: { workflowId, runId },
      maximumPageSize: 1,
    });
    const payloads = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
    const context = { type: 'workflow', namespace, workflowId } as const;
    const { events } = await decodeFromPayloadsAtIndex<EnrichmentInput>(
      loadedDataConverter,
      0,
      payloads,
      context,
    );
    return events;
  } catch (err) {
    if (isGrpcServiceError(err) && err.code === 5) return undefined;
    throw err;
  }
}
