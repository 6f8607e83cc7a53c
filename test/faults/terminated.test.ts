/**
 * Processes killed and workflows terminated at random, under load: a walk through Redis and Temporal then finds nothing
 * missing, and neither does the receiver.
 */
import assert from 'node:assert/strict';
import { Client, Connection } from '@temporalio/client';
import { type FaultRun, startFaultRun } from './faultRun.js';
import { drawFaults, kills } from './faults.js';
import { form } from './form.js';
import { pause } from './pause.js';
import { walk } from './walk.js';

describe(`${form.kills} faults, and workflows terminated all the time: every event is accounted for`, function () {
  this.timeout(form.kills * 60_000 + 600_000);
  let run: FaultRun;
  let connection: Connection;
  let temporal: Client;

  before(async () => {
    run = await startFaultRun();
    connection = await Connection.connect({ address: run.system.temporalAddress });
    temporal = new Client({ connection });
  });
  after(async () => {
    await connection?.close();
    await run?.stop();
  });

  it('by the receiver and by a walk through Redis and Temporal', async () => {
    let going = true;
    let terminated = 0;
    const terminating = (async () => {
      while (going) {
        terminated += await terminateSome().catch(() => 0);
        await pause(200);
      }
    })();
    for (const fault of drawFaults(kills, form.kills)) {
      await pause(200 + Math.random() * 800);
      await run.inject(fault);
    }
    going = false;
    await terminating;
    assert.ok(terminated > 0);
    const { lost, withTwoIds, wrong } = await run.account();
    const { found, states, events } = await walk({ db: run.db, temporal, taskQueue: 'notifications' });
    console.log(`${terminated} workflows terminated; ${events} events in workflows`, states);
    assert.deepEqual({ lost, withTwoIds, wrong, found }, nothing);
    assert.ok((states.delivered ?? 0) > 0);
  });

  const nothing = { lost: [], withTwoIds: [], wrong: [], found: [] };

  async function terminateSome(): Promise<number> {
    let count = 0;
    const query = "ExecutionStatus = 'Running' AND WorkflowType IN ('enrichment', 'catch-up')";
    for await (const { workflowId, runId } of temporal.workflow.list({ query, pageSize: 100 })) {
      if (Math.random() < 0.5) continue;
      await temporal.workflow
        .getHandle(workflowId, runId)
        .terminate('by a test')
        .then(() => count++)
        // Ended before, or Temporal is away.
        .catch(() => undefined);
    }
    return count;
  }
});
