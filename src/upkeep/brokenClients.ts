import { unlessBroken } from '../redis/connection/unlessBroken.js';
import { dropBroken, keepBroken, someBroken } from '../redis/sweep/brokenClients.js';
import type { ActivityDeps } from './deps.js';

/** Clients checked again in one sweep. */
const maxClients = 50;

/** Does one client's part of a sweep. Broken keys of that client are logged and counted, and the sweep continues. @throws if Redis is unavailable */
export function besideOthers(
  deps: Pick<ActivityDeps, 'db' | 'log'>,
  clientToken: string,
  work: () => Promise<void>,
): Promise<void> {
  return unlessBroken(work, (err) => keepAsBroken(deps, clientToken, { err }));
}

/** Logs a client with broken keys once, and keeps it until they are in order again. */
export async function keepAsBroken(
  { db, log }: Pick<ActivityDeps, 'db' | 'log'>,
  clientToken: string,
  because: { err: unknown } | { problem: string },
): Promise<void> {
  if (!(await keepBroken(db, clientToken))) return;
  log.error({ ...because, client_token: clientToken }, 'the keys of this client are broken');
}

/** Checks clients again whose keys were broken. @param look returns whether a client's keys agree; throws if one is broken */
export async function lookAgainAtBroken(
  { db, log }: Pick<ActivityDeps, 'db' | 'log'>,
  look: (clientToken: string) => Promise<boolean>,
): Promise<void> {
  for (const clientToken of await someBroken(db, maxClients)) {
    await besideOthers({ db, log }, clientToken, async () => {
      if (!(await look(clientToken))) return;
      await dropBroken(db, clientToken);
      log.info({ client_token: clientToken }, 'the keys of this client are in order again');
    });
  }
}
