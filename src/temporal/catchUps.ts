import type { Client } from '@temporalio/client';
import type { Logger } from '../log.js';
import type { Db } from '../redis/connection/db.js';
import { forgetWakeUp, mustWakeCatchUp } from '../redis/owed/owedClients.js';
import { clientTokenKey, notificationStateKey, workflowIds } from './workflowIds.js';

/** The catch-up workflows of an installation, one for each client that is owed something. */
export interface CatchUps {
  /** Wakes or starts a client's catch-up, unless it will plan before `inMs`. Never rejects: the sweep starts missing ones. */
  wake(clientToken: string, inMs: number): Promise<void>;
  /** Wakes or starts a client's catch-up now, if the client is owed something. @throws errors of Temporal or Redis */
  wakeNow(clientToken: string): Promise<void>;
  /** Wakes a catch-up that would plan too late, as a script has found. Concurrent calls for one client are one. */
  signal(clientToken: string): void;
  /** Ends a catch-up that does nothing and starts another. */
  replace(clientToken: string): Promise<void>;
}

export function createCatchUps(deps: { temporal: Client; db: Db; taskQueue: string; log: Logger }): CatchUps {
  const { temporal, db, taskQueue, log } = deps;
  const ids = workflowIds(taskQueue);
  const signalling = new Set<string>();

  const options = (clientToken: string) => ({
    workflowId: ids.catchUp(clientToken),
    taskQueue,
    args: [{ clientToken }],
    staticSummary: `Catch-up: what ${clientToken} is owed`,
    typedSearchAttributes: [
      { key: clientTokenKey, value: [clientToken] },
      { key: notificationStateKey, value: 'starting' },
    ],
  });

  async function signalWithStart(clientToken: string): Promise<void> {
    try {
      await temporal.workflow.signalWithStart('catch-up', { ...options(clientToken), signal: 'wake' });
    } catch (err) {
      // Otherwise no further wake-up would be sent, because Redis has noted that it is awake.
      await forgetWakeUp(db, clientToken);
      throw err;
    }
  }

  async function wakeIfNeeded(clientToken: string, inMs: number): Promise<void> {
    if (await mustWakeCatchUp(db, clientToken, inMs)) await signalWithStart(clientToken);
  }

  const logFailure = (clientToken: string) => (err: unknown) => {
    log.warn({ err, client_token: clientToken }, 'catch-up could not be woken; the sweep starts it');
  };

  return {
    wake: (clientToken, inMs) => wakeIfNeeded(clientToken, inMs).catch(logFailure(clientToken)),
    async wakeNow(clientToken) {
      const { owed, flight } = db.client(clientToken);
      if ((await db.redis.exists(owed, flight)) > 0) await signalWithStart(clientToken);
    },
    signal(clientToken) {
      if (signalling.has(clientToken)) return;
      signalling.add(clientToken);
      void signalWithStart(clientToken)
        .catch(logFailure(clientToken))
        .finally(() => signalling.delete(clientToken));
    },
    async replace(clientToken) {
      await temporal.workflow.start('catch-up', {
        ...options(clientToken),
        workflowIdConflictPolicy: 'TERMINATE_EXISTING',
      });
    },
  };
}
