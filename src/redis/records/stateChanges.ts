/** The changes of each registration's state, written by the scripts that make them: the last 20 of each client. */
import type { Db } from '../connection/db.js';
import { isRedisUnavailable, RedisUnavailable } from '../connection/unavailable.js';
import type { EndpointState } from './endpointStates.js';

export interface StateChange {
  clientToken: string;
  /** Redis' own clock, ms. */
  atMs: number;
  from: EndpointState | 'not_registered';
  to: EndpointState | 'not_registered';
  /** In words. */
  why: string;
  by: 'service' | 'publisher' | 'operator';
}

/**
 * Returns the changes of every client since a time (ms), the oldest first.
 * @param options `onBroken` is called for each client whose changes cannot be read
 * @throws if Redis is unavailable
 */
export async function listStateChanges(
  db: Db,
  options: { since?: number; onBroken(clientToken: string, err: unknown): Promise<void> | void },
): Promise<StateChange[]> {
  const clientTokens = await db.redis.smembers(db.global.clients);
  const found: StateChange[] = [];
  for (let start = 0; start < clientTokens.length; start += pageSize) {
    const page = clientTokens.slice(start, start + pageSize);
    const commands = db.redis.pipeline();
    for (const clientToken of page) commands.lrange(db.client(clientToken).stateChanges, 0, -1);
    const answers = await commands.exec();
    if (!answers) throw new RedisUnavailable('the changes of state were not read');
    for (const [i, clientToken] of page.entries()) {
      const [err, lines] = answers[i] as [Error | null, string[]];
      try {
        if (err) throw err;
        found.push(...lines.map((line) => stateChangeOf(clientToken, line)));
      } catch (broken) {
        if (isRedisUnavailable(broken)) throw broken;
        await options.onBroken(clientToken, broken);
      }
    }
  }
  const { since = 0 } = options;
  return found.filter((change) => change.atMs >= since).sort((a, b) => a.atMs - b.atMs);
}

/** Returns the last 20 of one client, the newest first. */
export async function stateChangesOf(db: Db, clientToken: string): Promise<StateChange[]> {
  const lines = await db.redis.lrange(db.client(clientToken).stateChanges, 0, -1);
  return lines.map((line) => stateChangeOf(clientToken, line));
}

/** Bounds each answer of Redis, so that a long list delays no other command. */
const pageSize = 500;

export function stateChangeOf(clientToken: string, line: string): StateChange {
  const { at, ...rest } = JSON.parse(line) as Omit<StateChange, 'atMs' | 'clientToken'> & { at: number };
  return { clientToken, atMs: at, ...rest };
}
