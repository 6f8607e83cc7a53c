/**
 * Redis, Temporal or the receiver away, or behind a bad line: only without Redis the API says 503, everything goes on by
 * itself when it is over.
 */
import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { logTail } from '../../local/child.js';
import { openForSuite } from '../servers.js';
import { assertKept, startFaultRun } from './faultRun.js';
import { away, badLines } from './faults.js';
import { form } from './form.js';
import { onStack } from './system.js';

const badForMs = 3000;
/** The service has no connection to it that can be disturbed. */
const awayOnly = onStack ? (['postgresql'] as const) : [];

describe('outages', function () {
  this.timeout((form.outagesSeconds.reduce((sum, s) => sum + s, 0) * 3 + 900) * 1000);
  const run = openForSuite(() =>
    startFaultRun({
      proxied: true,
      assetsPerClient: 100,
      // Of a long outage no more than the records that are kept of a client.
      pauseMs: Math.max(120, 2 * Math.max(...form.outagesSeconds)),
    }),
  );
  let injected = 0;
  /** Of this process, which stands still where the machine does: a Redis that is slower than 1 s is answered 503. */
  const stillNs = monitorEventLoopDelay();
  before(() => stillNs.enable());

  for (const part of ['redis', 'temporal', 'receiver', ...awayOnly] as const) {
    const outages = form.outagesSeconds.map((seconds) => away(part, seconds));
    for (const fault of [...outages, ...(part === 'postgresql' ? [] : badLines(part, badForMs))]) {
      it(`${fault.name}: recovers by itself`, async () => {
        await pause(500);
        stillNs.reset();
        const back = await run.inject(fault);
        const answers = run.publisher.answers[injected++];
        if (part !== 'redis' && answers?.refused !== 0 && stillNs.max < 500e6) {
          const slow = await run.db.redis.call('LATENCY', 'LATEST');
          assert.fail(`events refused: ${JSON.stringify(answers)}; Redis: ${JSON.stringify(slow)}`);
        }
        console.log(`      ${JSON.stringify(answers)} recovered ${Date.now() - back} ms after the return`);
        assert.deepEqual(run.publisher.wrong.splice(0), [], logTail(run.system.logOf('api')));
        assert.deepEqual(run.system.brokenOff, []);
      });
    }
  }

  it('loses nothing acknowledged, and repeats only what was in flight', async () => {
    const account = await run.account();
    console.table(account.rows);
    assertKept(account);
  });
});
