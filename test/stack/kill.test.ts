/** The short form of `npm run test:faults -- --stack`: every part of the stack is killed once under load. */
import assert from 'node:assert/strict';
import { assertKept, type FaultRun, startFaultRun } from '../faults/faultRun.js';
import { drawFaults, kills } from '../faults/faults.js';
import { pause } from '../faults/pause.js';
import { report } from '../faults/report.js';
import { onStack } from '../faults/system.js';
import { isComplete } from './isComplete.mjs';

describe('npm run stack: each part killed once under load', function () {
  this.timeout(1_200_000);
  let run: FaultRun;

  before(async function () {
    if (!isComplete()) return this.skip();
    assert.ok(onStack, 'run it by npm run test:stack');
    run = await startFaultRun();
  });
  after(() => run?.stop());

  it('nothing acknowledged is lost, no event has two ids, and only what was in flight is repeated', async () => {
    for (const fault of drawFaults(kills, kills.length)) {
      await pause(200 + Math.random() * 800);
      await run.inject(fault);
      await run.accountSoFar();
    }
    const account = await run.account();
    report(account.rows);
    assertKept(account);
  });
});
