import type { Connection } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';

/** Asks the server for its version, for at most `withinMs`. @throws if it does not answer */
export function askServer(connection: Connection | NativeConnection, withinMs: number): Promise<unknown> {
  return connection.withDeadline(Date.now() + withinMs, () => connection.workflowService.getSystemInfo({}));
}
