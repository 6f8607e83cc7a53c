/** Tells the errors of Redis apart. */

/** Redis did not answer: the command may or may not have run. */
export class RedisUnavailable extends Error {
  override name = 'RedisUnavailable';
}

/** Why a command failed. `other`: a bug of the service, such as a script that fails. */
export const redisErrorClasses = ['away', 'timeout', 'full', 'disk', 'not_ready', 'other'] as const;
export type RedisErrorClass = (typeof redisErrorClasses)[number];

/** The last two rows also name what ioredis says of a cluster. */
const classes: readonly (readonly [RegExp, RedisErrorClass])[] = [
  [/^OOM /, 'full'],
  [/MISCONF/, 'disk'],
  [/Command timed out/, 'timeout'],
  // While a slot is being moved, its new server may lack the scripts.
  [/Function not found/, 'not_ready'],
  [/LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|NOREPLICAS|^(BUSY|MOVED|ASK|TRYAGAIN) /, 'not_ready'],
  [/Too many Cluster redirections|cluster is down|Failed to refresh slots cache/, 'not_ready'],
  [/Connection is closed|Stream isn't writeable|max retries per request|ECONN|EPIPE|ETIMEDOUT/, 'away'],
  [/Cluster isn't ready|None of startup nodes|Cluster is ended/, 'away'],
];

export function redisErrorClass(message: string): RedisErrorClass {
  return classes.find(([words]) => words.test(message))?.[1] ?? 'other';
}

/** True for an error that means "Redis is unavailable, full or did not answer", not for a script's own error. */
export function isRedisUnavailable(err: unknown): boolean {
  if (err instanceof RedisUnavailable) return true;
  return err instanceof Error && redisErrorClass(err.message) !== 'other';
}

const says = (words: RegExp) => (err: unknown) => err instanceof Error && words.test(err.message);

/** True for a server that does not have the scripts yet. */
export const isNotLoaded = says(/^ERR Function not found$/);
/** True for Redis' refusal of a write because it has no memory left. */
export const isOutOfMemory = says(/^OOM /);
/** A demoted primary keeps its connections: a new connection leads to the new primary. A script's error has more before the word. */
export const isReadOnly = says(/READONLY You can't write/);
/** True for a command whose slot has moved or is being moved. */
export const isRedirected = says(/^(MOVED|ASK|TRYAGAIN) /);

/** Handles an error that also reaches the callers: this only prevents an unhandled rejection. */
export function ignore(): void {}

/**
 * Does one client's part of a longer work, so that its broken keys do not stop the parts of other clients.
 *
 * @param onBroken is called with the error of the work
 * @returns the result of the work; undefined if it threw
 * @throws if Redis is unavailable
 */
export async function unlessBroken<T>(
  work: () => Promise<T>,
  onBroken: (err: unknown) => unknown,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (err) {
    if (isRedisUnavailable(err)) throw err;
    await onBroken(err);
    return undefined;
  }
}
