/** The short form of `npm run test:faults -- --stack`: kills every part of the stack once under load. */
import { assertKept, type FaultRun, startFaultRun } from '../faults/faultRun.js';
import { drawFaults, kills } from '../faults/faults.js';
import { pause } from '../faults/pause.js';
import { report } from '../faults/report.js';
import { runsHere } from './runsHere.mjs';

describe('npm run stack: one kill of each part under load', function () {
  this.timeout(1_200_000);
  let run: FaultRun;

  before(async function () {
    if (!runsHere()) return this.skip();
    run = await startFaultRun();
  });
  after(() => run?.stop());

  it('loses nothing acknowledged, gives no event two ids, and repeats only POSTs in flight', async () => {
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
