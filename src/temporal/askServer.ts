import type { Connection } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';

/** Asks whether the server is there; the call ends after `withinMs`. @throws where it does not answer */
export function askServer(connection: Connection | NativeConnection, withinMs: number): Promise<unknown> {
  const ask = () => connection.workflowService.getSystemInfo({});
  const asked = connection.withDeadline(Date.now() + withinMs, ask);
  // It has read its deadline; why it is closed, see closeContext.ts.
  connection.callContextStorage.disable();
  return asked;
}
