import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../log.js';
import { isTemporalUnavailable } from './unavailable.js';

/**
 * Repeats a call at the start of a process while Temporal is unavailable or not ready: its frontend answers some seconds before
 * its history service. @throws any other failure of the call
 */
export async function untilAvailable(call: () => Promise<void>, log: Logger): Promise<void> {
  for (let told = false; ; told = true) {
    try {
      return await call();
    } catch (err) {
      if (!isTemporalUnavailable(err)) throw err;
      if (!told) log.warn({ err }, 'waiting for Temporal');
      await sleep(250);
    }
  }
}
