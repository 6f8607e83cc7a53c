import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import type { Logger } from '../log.js';
import type { Db } from '../redis/connection/db.js';
import { forgetWakeUp, mustWakeCatchUp } from '../redis/owed/owed.js';
import { clientTokenKey, notificationStateKey } from './searchAttributeKeys.js';
import { workflowIds } from './workflowIds.js';

/** The catch-up workflows of an installation, one for each client that is owed something. */
export interface CatchUps {
  /** Wakes a client's, or starts it, unless it looks by itself before `inMs`. Does not reject: the sweep sees what is left. */
  wake(clientToken: string, inMs: number): Promise<void>;
  /** The same for people, who want to know. @throws what Temporal or Redis throws */
  wakeNow(clientToken: string): Promise<void>;
  /** Wakes one that a script has found to come too late. Calls for one client that is being woken are one. */
  signal(clientToken: string): void;
  /** Starts one where none runs. */
  start(clientToken: string): Promise<void>;
  /** Ends one that does nothing and starts another in its place. */
  replace(clientToken: string): Promise<void>;
  /** The client tokens of all that run, by one paged list. */
  running(): Promise<Set<string>>;
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
      // The next one is sent again.
      await forgetWakeUp(db, clientToken);
      throw err;
    }
  }

  async function wakeIfNeeded(clientToken: string, inMs: number): Promise<void> {
    if (await mustWakeCatchUp(db, clientToken, inMs)) await signalWithStart(clientToken);
  }

  const told = (clientToken: string) => (err: unknown) => {
    log.warn({ err, client_token: clientToken }, 'catch-up could not be woken; the sweep will');
  };

  return {
    wake: (clientToken, inMs) => wakeIfNeeded(clientToken, inMs).catch(told(clientToken)),
    wakeNow: (clientToken) => wakeIfNeeded(clientToken, 0),
    signal(clientToken) {
      if (signalling.has(clientToken)) return;
      signalling.add(clientToken);
      void signalWithStart(clientToken)
        .catch(told(clientToken))
        .finally(() => signalling.delete(clientToken));
    },
    async start(clientToken) {
      try {
        await temporal.workflow.start('catch-up', options(clientToken));
      } catch (err) {
        if (!(err instanceof WorkflowExecutionAlreadyStartedError)) throw err;
      }
    },
    async replace(clientToken) {
      await temporal.workflow.start('catch-up', {
        ...options(clientToken),
        workflowIdConflictPolicy: 'TERMINATE_EXISTING',
      });
    },
    async running() {
      const running = new Set<string>();
      const query = `WorkflowType = 'catch-up' AND ExecutionStatus = 'Running' AND TaskQueue = '${taskQueue}'`;
      for await (const { workflowId } of temporal.workflow.list({ query, pageSize: 1000 })) {
        running.add(workflowId.slice(workflowId.lastIndexOf('/') + 1));
      }
      return running;
    },
  };
}
