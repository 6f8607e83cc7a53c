import { randomInt } from 'node:crypto';
import { isPortTaken } from '../../src/embedded/ports.js';

/**
 * A free port that stays free while its server is down: below the range the system takes for outgoing connections,
 * one of which would else keep the server from coming back.
 */
export async function steadyPort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 32_000);
    if (!(await isPortTaken(port))) return port;
  }
}
