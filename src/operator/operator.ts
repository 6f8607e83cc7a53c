/** What each operation works with, over the command line's own connections or those of a process of the service. */
import { createLogger, messageOf } from '../log.js';
import type { Db } from '../redis/connection/db.js';
import { recordChange } from '../redis/records/audit.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import type { Operator } from './operation.js';

const log = createLogger('silent', 'operator');

type Own = Omit<Operator, 'change' | 'record' | 'wake' | 'workflowIds'>;

/** @param why the operator's reason, for the audit */
export function createOperator(own: Own, why?: string): Operator {
  const { config, db, temporal, who, warn } = own;
  const change = async <T>(write: (db: Db) => Promise<T>): Promise<T> =>
    await (await db()).durably(write).safe;
  return {
    ...own,
    change,
    /** Loaded only when needed, like Temporal's client. */
    workflowIds: async () => (await import('../temporal/workflowIds.js')).workflowIds(config().TASK_QUEUE),
    async record(what, target, before, after) {
      await change((changed) => recordChange(changed, { who, what, target, before, after, why }));
      if (who.startsWith('unnamed ('))
        warn('Recorded without a name: give yours with --as NAME or OPERATOR_NAME.');
    },
    async wake(clientToken) {
      try {
        if ((await getEndpoint(await db(), clientToken)).owed === 0) return true;
        const { createCatchUps } = await import('../temporal/catchUps.js');
        const deps = { temporal: await temporal(), db: await db(), taskQueue: config().TASK_QUEUE, log };
        if ((await createCatchUps(deps).alarm(clientToken)) === 'failed')
          throw new Error('Temporal does not answer, or refuses it.');
        return true;
      } catch (err) {
        warn(
          `Done, but catch-up could not be woken; the sweep wakes it within 30 seconds, once Temporal is back. ${messageOf(err)}`,
        );
        return false;
      }
    },
  };
}
