/** Worker versioning on a real server: two versions of the workers are two harnesses of one installation. */
import assert from 'node:assert/strict';
import { createCurrentVersion, type CurrentVersion } from '../../src/temporal/currentVersion.js';
import { createLogger } from '../../src/log.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from '../delivery/harness.js';
import { uniquePrefix } from '../servers.js';

describe('Worker versions', () => {
  it('x', async () => {
    const receiver = await startReceiver();
    const prefix = uniquePrefix();
    const h = await startHarness({ TEMPORAL_WORKER_BUILD_ID: '1.0.0', KEY_PREFIX: prefix, TASK_QUEUE: `${prefix}queue` });
    await h.startWorker();
    const version = { deploymentName: h.taskQueue, buildId: '1.0.0' };
    const cv = createCurrentVersion({ temporal: h.temporal, taskQueue: h.taskQueue, version, log: createLogger('info', 'test'), lookEveryMs: 100 });
    cv.watch();
    const t0 = Date.now();
    await until('current', () => cv.isOurs());
    console.log('current after', Date.now() - t0);
    const d = await h.temporal.workflowService.describeWorkerDeployment({ namespace: 'default', deploymentName: h.taskQueue });
    console.log(JSON.stringify(d.workerDeploymentInfo, null, 1));
    const client = await h.newClient(receiver.url);
    receiver.answer = () => 500;
    const { id } = await h.publish({ client, asset: 'a' });
    const wf = await h.workflowOf(client, id);
    await until('x', async () => (await wf.describe()).raw.pendingActivities?.length);
    const x = await wf.describe();
    console.log(JSON.stringify(x.raw.workflowExecutionInfo?.versioningInfo), JSON.stringify(x.raw.pendingActivities));
    const q = await h.temporal.workflowService.describeTaskQueue({ namespace: 'default', taskQueue: { name: h.taskQueue }, taskQueueType: 1 });
    console.log(JSON.stringify(q, null, 1));
    await cv.close();
    await h.close();
    await receiver.close();
  });
  it('unversioned', async () => {
    const receiver = await startReceiver();
    const h = await startHarness();
    await h.startWorker();
    const client = await h.newClient(receiver.url);
    const { id } = await h.publish({ client, asset: 'a' });
    const wf = await h.workflowOf(client, id);
    console.log(await wf.result());
    await h.close();
    await receiver.close();
  });
});
