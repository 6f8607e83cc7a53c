/** Redis did not answer: the command may or may not have run. */
export class RedisUnavailable extends Error {
  override name = 'RedisUnavailable';
}

/** True for an error that means "Redis is unavailable, full or did not answer", not for a script's own error. */
export function isRedisUnavailable(err: unknown): boolean {
  if (err instanceof RedisUnavailable) return true;
  if (!(err instanceof Error)) return false;
  return unavailableWords.test(err.message) || err.name === 'MaxRetriesPerRequestError';
}

/** True for a server that does not have the scripts yet. */
export const isNotLoaded = (err: unknown): boolean =>
  err instanceof Error && err.message === 'ERR Function not found';

/** True for Redis' refusal of a write because it has no memory left. */
export function isOutOfMemory(err: unknown): boolean {
  return err instanceof Error && err.message.startsWith('OOM ');
}

const unavailableWords = new RegExp(
  [
    "Connection is closed|Stream isn't writeable|Command timed out|max retries per request",
    'ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT',
    'LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|NOREPLICAS|^BUSY ',
    // Of a cluster: one node or all are unavailable, or a slot is being moved.
    "Cluster isn't ready|cluster is down|None of startup nodes|Failed to refresh slots cache",
    '^(MOVED|ASK|TRYAGAIN) |Too many Cluster redirections|Cluster is ended',
    // No memory left; no disk left.
    '^OOM |MISCONF',
  ].join('|'),
);

/**
 * Does one client's part of a longer work, so that its broken keys do not stop the parts of other clients.
 *
 * @param onBroken is called with the error of the work
 * @returns the result of the work; undefined if it threw
 * @throws if Redis is unavailable
 */
export async function unlessBroken<T>(
  work: () => Promise<T>,
  onBroken: (err: unknown) => void | Promise<void>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (err) {
    if (isRedisUnavailable(err)) throw err;
    await onBroken(err);
    return undefined;
  }
}
