import { asyncLocalStorage } from '@temporalio/activity';
import type { ActivityInterceptorsFactory, NativeConnection } from '@temporalio/worker';

/**
 * Node 20 follows every promise of a process from the first use of an AsyncLocalStorage until its end: a tenth of what
 * a notification costs. The SDK uses two for each activity, its context and a signal to end its calls over the
 * connection, which a NativeConnection does not heed. Both are closed once the activity has begun, and opened again by
 * the next: so an activity asks for its context before its first await, or never.
 */
export function closeContext(connection: NativeConnection): ActivityInterceptorsFactory {
  return () => ({
    inbound: {
      execute(input, begin) {
        const ended = begin(input);
        asyncLocalStorage.disable();
        connection.callContextStorage.disable();
        return ended;
      },
    },
  });
}
