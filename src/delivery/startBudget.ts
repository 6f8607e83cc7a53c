/** The budget of workflow starts, and the processes of the installation that share it. Each process says every few seconds that it runs. */
import { randomBytes } from 'node:crypto';
import type { Logger } from '../log.js';
import type { Db } from '../redis/connection/db.js';
import { evaluate } from '../redis/connection/library.js';

/**
 * This process's share of a budget of starts per second; the starts of up to one second may be saved for a burst. All
 * processes have equal shares.
 */
export class StartBudget {
  #left = Number.POSITIVE_INFINITY;
  #countedAt = performance.now();

  /** @param processes how many share it now */
  constructor(
    readonly perSecond: number,
    readonly processes: () => number,
  ) {}

  /** Takes one start. @returns false if none is left */
  take(): boolean {
    this.#count();
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }

  /** Takes one start, and gives up the starts that were saved: they would go to single events while others gather. */
  takeAll(): boolean {
    if (!this.take()) return false;
    this.#left = 0;
    return true;
  }

  /** Gives back a start that was taken and is not needed. */
  giveBack(): void {
    this.#left++;
  }

  /** Returns when the next start can be taken (ms); below 0 if it can be taken now. */
  nextInMs(): number {
    const share = this.#count();
    return ((1 - this.#left) / share) * 1000;
  }

  /** Adds the starts of the time since the last count. @returns this process's starts per second */
  #count(): number {
    const now = performance.now();
    const share = this.perSecond / this.processes();
    const earned = ((now - this.#countedAt) / 1000) * share;
    this.#left = Math.min(Math.max(1, share), this.#left + earned);
    this.#countedAt = now;
    return share;
  }
}

const sayEveryMs = 5_000;
/** A process that was killed counts for so long. */
export const silentAfterMs = 15_000;

/** Counts this process among those that run. Resolves once it knows the others. */
export async function joinProcesses(db: Db, log: Logger) {
  const key = db.global.processes;
  const id = randomBytes(9).toString('base64url');
  let running = 1;

  async function say(): Promise<void> {
    try {
      const answer = await evaluate(db, 'countProcesses', [key], [id, silentAfterMs]);
      const [count, hadTime] = answer as [number, number];
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
    /** Says that this process starts no more workflows. */
    async close(): Promise<void> {
      clearInterval(timer);
      await db.redis.zrem(key, id).catch(() => {});
    },
  };
}
