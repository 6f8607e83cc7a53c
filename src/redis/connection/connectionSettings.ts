/** A connection that owes an answer for this much longer than a command may take is dead, and another is made. */
const deadAfterMs = 500;

export type ConnectionSettings = ReturnType<typeof connectionSettings>;

/** What holds for every connection: nothing is queued while a server is away, and nothing is sent twice. */
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

/** After how long the next connection is tried, ms. */
export function retryStrategy(times: number): number {
  return Math.min(50 * times, 500);
}
