import assert from 'node:assert/strict';
import { upkeepQueueOf } from '../../src/temporal/workflowIds.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, startHarness } from '../service.js';

describe('Workers with TEMPORAL_WORKER_BUILD_ID', () => {
  const version = { deploymentName: `deployment-${process.pid}`, buildId: '1.0' };
  let h: Harness;
  let receiver: Receiver;

  before(async () => {
    h = await startHarness({
      TEMPORAL_DEPLOYMENT_NAME: version.deploymentName,
      TEMPORAL_WORKER_BUILD_ID: version.buildId,
    });
    receiver = await startReceiver();
    await h.startWorker();
  });
  after(async () => {
    await h.close();
    await receiver.close();
  });

  it('poll all their queues as this version', async () => {
    for (const name of [h.taskQueue, upkeepQueueOf(h.taskQueue)]) {
      const polled = await until(`${name} is polled`, async () => {
        const { pollers } = await h.temporal.workflowService.describeTaskQueue({
          ...{ namespace: 'default', taskQueue: { name }, taskQueueType: 2 },
        });
        return pollers?.[0]?.deploymentOptions ?? undefined;
      });
      const { deploymentName, buildId } = polled;
      assert.deepEqual({ deploymentName, buildId }, version);
    }
  });

  it('run workflows once an operator has made it current', async () => {
    await until('Temporal takes it', () =>
      h.temporal.workflowService.setWorkerDeploymentCurrentVersion({ namespace: 'default', ...version }).then(
        () => true,
        () => false,
      ),
    );
    const client = await h.newClient(receiver.url);
    const { id } = await h.publish({ client, asset: 'a' });
    const result = await (await h.workflowOf(client, id)).result();
    assert.equal((result as { state: string }).state, 'delivered');
  });
});
