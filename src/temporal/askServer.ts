import type { Connection } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';

/** Asks the server who it is, for at most `withinMs`. @throws where it does not answer */
export function askServer(connection: Connection | NativeConnection, withinMs: number): Promise<unknown> {
  return connection.withDeadline(Date.now() + withinMs, () => connection.workflowService.getSystemInfo({}));
}
