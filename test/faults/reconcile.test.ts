/**
 * Processes killed and workflows terminated at random, under load: `operator reconcile` then finds nothing missing,
 * and neither does the receiver.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { projectDir } from '../../src/operator/running/projectDir.js';
import { type FaultRun, startFaultRun } from './faultRun.js';
import { drawFaults, kills } from './faults.js';
import { form } from './form.js';
import { pause } from './pause.js';

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

  it('by operator reconcile and by the receiver', async () => {
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
    const found = await reconciled();
    console.log(
      `${terminated} workflows terminated; ${JSON.stringify({ ...found.events, ...found.looked_at })}`,
    );
    assert.deepEqual({ lost, withTwoIds, wrong, unaccounted: found.unaccounted }, nothing);
    assert.ok(found.events.delivered > 0);
  });

  const nothing = { lost: [], withTwoIds: [], wrong: [], unaccounted: [] };

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

  // biome-ignore lint/suspicious/noExplicitAny: what the command prints
  async function reconciled(): Promise<any> {
    const { redisUrl, temporalAddress, dir } = run.system;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [join(dir, 'dist/src/operator/main.js'), 'reconcile', '--json', '--per-second', '1000'],
      {
        env: { PATH: process.env.PATH, REDIS_URL: redisUrl, TEMPORAL_ADDRESS: temporalAddress },
        cwd: projectDir,
        maxBuffer: 64 * 1024 * 1024,
      },
    ).catch((err: { stdout: string }) => err);
    return JSON.parse(stdout);
  }
});
