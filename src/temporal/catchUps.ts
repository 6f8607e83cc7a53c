import type { Client } from '@temporalio/client';
import type { Logger } from '../log.js';
import type { Db } from '../redis/connection/db.js';
import { mustWakeCatchUp } from '../redis/owed/owedClients.js';
import { clientTokenKey, notificationStateKey, upkeepPriority, workflowIds } from './workflowIds.js';

export type CatchUps = ReturnType<typeof createCatchUps>;

/** Wakes the catch-up workflows of an installation, one for each client that is owed something. */
export function createCatchUps(deps: { temporal: Client; db: Db; taskQueue: string; log: Logger }) {
  const { temporal, db, taskQueue, log } = deps;
  const ids = workflowIds(taskQueue);

  const options = (clientToken: string) => ({
    workflowId: ids.catchUp(clientToken),
    taskQueue,
    args: [{ clientToken }],
    priority: upkeepPriority,
    staticSummary: `Catch-up: what ${clientToken} is owed`,
    typedSearchAttributes: [
      { key: clientTokenKey, value: [clientToken] },
      { key: notificationStateKey, value: 'starting' },
    ],
  });

  async function signalWithStart(clientToken: string): Promise<void> {
    await temporal.workflow.signalWithStart('catch-up', { ...options(clientToken), signal: 'wake' });
  }

  const logFailure = (client_token: string, err: unknown) =>
    log.warn({ err, client_token }, 'catch-up could not be woken; the sweep starts it');

  return {
    /** Wakes or starts a client's catch-up, unless it is awake. Never rejects: the sweep starts a missing catch-up. */
    async wake(clientToken: string): Promise<void> {
      try {
        if (await mustWakeCatchUp(db, clientToken)) await signalWithStart(clientToken);
      } catch (err) {
        logFailure(clientToken, err);
      }
    },
    /** Wakes or starts the catch-up of a client that is owed something. @throws errors of Temporal or Redis */
    wakeNow: signalWithStart,
    /** Wakes a catch-up because a script answered `wakeCatchUp`: the catch-up would plan too late. */
    signal(clientToken: string): void {
      signalWithStart(clientToken).catch((err: unknown) => logFailure(clientToken, err));
    },
    /** Ends a catch-up that does nothing and starts another. */
    async replace(clientToken: string): Promise<void> {
      await temporal.workflow.start('catch-up', {
        ...options(clientToken),
        workflowIdConflictPolicy: 'TERMINATE_EXISTING',
      });
    },
  };
}
