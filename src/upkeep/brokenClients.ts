import { unlessBroken } from '../redis/connection/unavailable.js';
import type { ActivityDeps } from './deps.js';

/** The dependencies of one sweep. */
export interface SweepDeps extends ActivityDeps {
  /** Clients whose keys this sweep could not read, or whose keys contradict each other. */
  broken: Set<string>;
  /** How often a part of Redis did not answer. */
  away: number;
}

/** Does one client's part of a sweep. Broken keys of that client are logged and counted, and the sweep continues. @throws if Redis is unavailable */
export function besideOthers(
  deps: Pick<SweepDeps, 'log' | 'broken'>,
  clientToken: string,
  work: () => Promise<void>,
): Promise<void> {
  return unlessBroken(work, (err) => noteBroken(deps, clientToken, { err }));
}

/** Counts a client with broken keys, and logs it once a sweep. */
export function noteBroken(
  { broken, log }: Pick<SweepDeps, 'log' | 'broken'>,
  clientToken: string,
  because: { err: unknown } | { problem: string },
): void {
  if (broken.has(clientToken)) return;
  broken.add(clientToken);
  log.error({ ...because, client_token: clientToken }, 'the keys of this client are broken');
}
