/** A workflow whose tasks fail, as after a release that cannot read what another has begun. */
import assert from 'node:assert/strict';
import { Client, Connection } from '@temporalio/client';
import { openCli } from '../operator/cli.js';
import { startService } from '../program.js';
import { until } from '../receiver.js';
import { opened, servers } from '../servers.js';

describe('A workflow whose tasks fail', () => {
  it('is named with its failure in log, status and metric, until it no longer fails', async () => {
    const service = opened(await startService());
    const cli = await openCli({ KEY_PREFIX: service.prefix, TASK_QUEUE: service.taskQueue });
    const connection = opened(await Connection.connect({ address: servers().temporalAddress }));
    const workflowId = `${service.taskQueue}/enrichment/SITE0042/n-1`;
    // The input of a release without `before`.
    const started = { taskQueue: service.taskQueue, workflowId, args: [{ events: [{}] }] };
    const handle = await new Client({ connection }).workflow.start('enrichment', started);
    await until('the log names it', async () => service.said().includes('a workflow task failed'));
    const line = service.stdout.split('\n').find((one) => one.includes('a workflow task failed')) ?? '';
    const { workflow_id, run_id, reason } = JSON.parse(line);
    assert.deepEqual([workflow_id, run_id], [workflowId, handle.firstExecutionRunId]);
    assert.match(reason, /Cannot read properties of undefined/);
    const counted = async () => /^asset_update_failing_workflows (\d)/m.exec(await service.metrics())?.[1];
    await until('the metric counts it', async () => (await counted()) === '1');
    const named = `Tasks of 1 workflow fail, such as ${workflowId}: Cannot read properties of undefined`;
    await until('status names it', async () => (await cli.run(['status'])).stdout.includes(named), 30_000);
    await handle.terminate();
    await until('the metric is 0 again', async () => (await counted()) === '0', 40_000);
    assert.match((await cli.run(['status'])).stdout, /^All is well/);
  }).timeout(120_000);
});
