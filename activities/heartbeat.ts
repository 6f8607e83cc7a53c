import { Context } from '@temporalio/activity';

const everyMs = 3000;

/** Sends heartbeats with the progress of this activity to Temporal, until `work` has ended. */
export async function withHeartbeat<T>(work: () => Promise<T>, progress?: () => unknown): Promise<T> {
  const context = Context.current();
  const timer = setInterval(() => context.heartbeat(progress?.()), everyMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
