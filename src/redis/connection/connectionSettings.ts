/** A connection without an answer for this much longer than a command may take is dead, and is replaced. */
const deadAfterMs = 500;

export type ConnectionSettings = ReturnType<typeof connectionSettings>;

/** Returns the settings of every connection: no command is queued while a server is unavailable, and none is repeated. */
export function connectionSettings(commandTimeoutMs: number) {
  return {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    connectTimeout: 1000,
    commandTimeout: commandTimeoutMs,
    socketTimeout: commandTimeoutMs + deadAfterMs,
    enableAutoPipelining: false,
  };
}

/** A demoted primary keeps its connections: a new connection leads to the new primary. A script's error has more before the word. */
export const isReadOnly = (err: Error): boolean => err.message.includes("READONLY You can't write");

/** Returns the pause before the next try to connect, ms. */
export function retryStrategy(times: number): number {
  return Math.min(50 * times, 500);
}
