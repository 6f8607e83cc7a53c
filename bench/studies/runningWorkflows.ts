import { Client, Connection } from '@temporalio/client';
import type { Stack } from '../stack.js';

/** Returns the number of running workflows of each type. */
export async function runningWorkflows(stack: Stack): Promise<Record<string, number>> {
  const connection = await Connection.connect({ address: stack.temporalAddress });
  try {
    const counts: Record<string, number> = {};
    const query = `ExecutionStatus = 'Running' AND TaskQueue = '${stack.taskQueue}'`;
    for await (const { type } of new Client({ connection }).workflow.list({ query, pageSize: 1000 })) {
      counts[type] = (counts[type] ?? 0) + 1;
    }
    return counts;
  } finally {
    await connection.close();
  }
}
