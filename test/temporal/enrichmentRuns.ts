import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { EnrichmentInput } from '../../src/delivery/outcome.js';

/** Returns the ids of the workflows `enrichment`, newest first. Temporal lists a run some time after it began. */
export async function* enrichmentIds(temporal: Client, taskQueue: string): AsyncGenerator<string> {
  const query = `WorkflowType = 'enrichment' AND TaskQueue = '${taskQueue}'`;
  for await (const { workflowId } of temporal.workflow.list({ query })) yield workflowId;
}

/** Reads the events in a workflow's input; none if Temporal no longer has it. */
export async function eventsOf(temporal: Client, workflowId: string): Promise<EnrichmentInput['events']> {
  try {
    const { events } = await temporal.workflow.getHandle(workflowId).fetchHistory();
    const [input] = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
    if (input == null) return [];
    return temporal.options.loadedDataConverter.payloadConverter.fromPayload<EnrichmentInput>(input).events;
  } catch (err) {
    if (err instanceof WorkflowNotFoundError) return [];
    throw err;
  }
}
