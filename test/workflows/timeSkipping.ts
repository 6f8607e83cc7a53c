/** The shipped workflows on the server whose clock skips, with activities of the test's own. */
import { Worker } from '@temporalio/worker';
import type { Activities } from '../../activities/index.js';
import { workflowBundlePath } from '../../src/temporal/bundle.js';
import { upkeepQueueOf } from '../../src/temporal/workflowIds.js';
import { startTimeSkippingServer, uniquePrefix } from '../servers.js';

type Fake = { [Name in keyof Activities]?: (...args: never[]) => Promise<unknown> };

export type TimeSkipping = Awaited<ReturnType<typeof startTimeSkipping>>;

export async function startTimeSkipping() {
  const env = await startTimeSkippingServer();
  const namespace = env.namespace ?? 'default';
  return {
    env,
    /** The server's clock, ms. */
    now: () => env.currentTimeMs(),
    /** While workers of all task queues run. */
    async withWorkers<T>(activities: Fake, work: (taskQueue: string) => Promise<T>): Promise<T> {
      const taskQueue = `${uniquePrefix()}queue`;
      const shared = { connection: env.nativeConnection, namespace, activities };
      const workflowBundle = { codePath: workflowBundlePath() };
      const workers = [
        await Worker.create({ ...shared, taskQueue, workflowBundle }),
        await Worker.create({ ...shared, taskQueue: upkeepQueueOf(taskQueue) }),
      ];
      const done = work(taskQueue);
      await Promise.all(workers.map((worker) => worker.runUntil(done)));
      return await done;
    },
  };
}
