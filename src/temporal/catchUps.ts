import type { Client } from '@temporalio/client';
import type { Logger } from '../log.js';
import type { Db } from '../redis/connection/db.js';
import { setAlarm } from '../redis/owed/owedClients.js';
import { toldOf } from './refusal.js';
import { clientTokenKey, notificationStateKey, upkeepPriority, workflowIds } from './workflowIds.js';

export type CatchUps = ReturnType<typeof createCatchUps>;

/** The alarms of an installation: each wakes the catch-up workflow of one client that is owed something. */
export function createCatchUps(deps: { temporal: Client; db: Db; taskQueue: string; log: Logger }) {
  const { temporal, db, taskQueue, log } = deps;
  const ids = workflowIds(taskQueue);

  const options = (clientToken: string) => ({
    workflowId: ids.catchUp(clientToken),
    taskQueue,
    args: [{ clientToken }],
    priority: upkeepPriority,
    staticSummary: `Catch-up: what \`${clientToken}\` is owed`,
    typedSearchAttributes: [
      { key: clientTokenKey, value: [clientToken] },
      { key: notificationStateKey, value: 'starting' },
    ],
  });

  async function tell(clientToken: string, isStuck: boolean): Promise<void> {
    const { workflow } = temporal;
    if (isStuck)
      await workflow.start('catch-up', {
        ...options(clientToken),
        workflowIdConflictPolicy: 'TERMINATE_EXISTING',
      });
    else await workflow.signalWithStart('catch-up', { ...options(clientToken), signal: 'wake' });
  }

  const logFailure = (client_token: string, err: unknown) =>
    log.warn({ ...toldOf(err), client_token }, 'catch-up could not be woken; the sweep wakes it');

  return {
    /** Wakes or starts a client's catch-up, because a script has set its alarm. Never rejects: the sweep wakes what is late. */
    wake: (clientToken: string) =>
      tell(clientToken, false).catch((err: unknown) => logFailure(clientToken, err)),
    /**
     * Sets the alarm of a client's catch-up, if something is owed. Wakes or starts a catch-up that would wake later, and replaces one
     * that was woken in vain for minutes. Never rejects: the sweep wakes what is late.
     */
    async alarm(clientToken: string, inMs = 0): Promise<'covered' | 'woken' | 'replaced' | 'failed'> {
      try {
        const answer = await setAlarm(db, clientToken, inMs);
        if (answer !== 'covered') await tell(clientToken, answer === 'replaced');
        return answer;
      } catch (err) {
        logFailure(clientToken, err);
        return 'failed';
      }
    },
  };
}
