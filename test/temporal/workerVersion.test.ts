import assert from 'node:assert/strict';
import { upkeepQueueOf } from '../../src/temporal/workflowIds.js';
import { succeeds, until } from '../receiver.js';
import { useHarness } from '../service.js';

describe('Workers with TEMPORAL_WORKER_BUILD_ID', () => {
  const version = { deploymentName: `deployment-${process.pid}`, buildId: '1.0' };
  const scene = useHarness({
    TEMPORAL_DEPLOYMENT_NAME: version.deploymentName,
    TEMPORAL_WORKER_BUILD_ID: version.buildId,
  });

  it('poll all their queues as this version', async () => {
    const { h } = scene;
    for (const name of [h.taskQueue, upkeepQueueOf(h.taskQueue)]) {
      const polled = await until(`${name} is polled`, async () => {
        const { pollers } = await h.temporal.workflowService.describeTaskQueue({
          namespace: 'default',
          taskQueue: { name },
          taskQueueType: 2,
        });
        return pollers?.[0]?.deploymentOptions ?? undefined;
      });
      const { deploymentName, buildId } = polled;
      assert.deepEqual({ deploymentName, buildId }, version);
    }
  });

  it('run workflows once an operator has made it current', async () => {
    const { h, client } = scene;
    const { workflowService } = h.temporal;
    const asked = { namespace: 'default', ...version };
    await until('Temporal takes it', () =>
      succeeds(workflowService.setWorkerDeploymentCurrentVersion(asked)),
    );
    const { id } = await h.publish({ client, asset: 'a' });
    const result = await (await h.workflowOf(client, id)).result();
    assert.equal((result as { state: string }).state, 'delivered');
  });
});
