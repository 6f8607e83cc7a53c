/** The processes of the installation that start workflows, and those with a worker. Each says every few seconds that it runs. */
import { randomBytes } from 'node:crypto';
import type { Logger } from '../../log.js';
import { type Db, timeAt } from '../connection/db.js';
import { evaluate } from '../connection/library.js';

const sayEveryMs = 5_000;
/** A process that was killed counts for so long. */
export const silentAfterMs = 15_000;

/** Counts this process among those that run. Resolves once it knows the others. */
export async function joinProcesses(
  db: Db,
  log: Logger,
  key = db.global.processes,
  id = randomBytes(9).toString('base64url'),
) {
  let running = 1;

  async function say(): Promise<void> {
    try {
      const args = [id, silentAfterMs];
      const [count, hadTime] = await evaluate<[number, number]>(db, 'countProcesses', [key], args);
      running = hadTime === 1 ? count : Math.max(running, count);
    } catch (err) {
      log.debug({ err }, 'the running processes could not be counted');
    }
  }

  await say();
  const timer = setInterval(() => void say(), sayEveryMs);
  return {
    /** Returns how many run, this one included: 1 or more. While Redis is unavailable, and just after, it does not sink. */
    count: (): number => running,
    async close(): Promise<void> {
      clearInterval(timer);
      await db.redis.zrem(key, id).catch(() => {});
    },
  };
}

/** Returns the processes among those of a key that run. @throws if Redis is unavailable */
export async function runningProcesses(db: Db, key: string): Promise<Set<string>> {
  const since = (await timeAt(db, key)) - silentAfterMs;
  return new Set(await db.redis.zrangebyscore(key, since, '+inf'));
}
