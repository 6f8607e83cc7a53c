/**
 * Redis, Temporal or the receiver away, or behind a bad line: only without Redis the API says 503, everything goes on by
 * itself when it is over, and what had piled up is sent at a bounded rate.
 */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { logTail } from '../../local/child.js';
import { createClient } from '../../src/redis/records/clients.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { assertKept, type FaultRun, inFlightPerClient, startFaultRun } from './faultRun.js';
import { away, badLines } from './faults.js';
import { form } from './form.js';
import { mostInOneSecond } from './receiver.js';
import { publishAll, register } from './scene.js';
import { onStack } from './system.js';

const badForMs = 3000;
const drainPerSecond = 20;
/** The service has no connection to it that can be disturbed. */
const awayOnly = onStack ? (['postgresql'] as const) : [];

describe('outages', function () {
  this.timeout((form.outagesSeconds.reduce((sum, s) => sum + s, 0) * 3 + 900) * 1000);
  let run: FaultRun;
  let injected = 0;

  before(async () => {
    run = await startFaultRun({
      proxied: true,
      assetsPerClient: 100,
      // Of a long outage no more than the records that are kept of a client.
      pauseMs: Math.max(120, 2 * Math.max(...form.outagesSeconds)),
      env: { DRAIN_PER_SECOND: String(drainPerSecond) },
    });
  });
  after(() => run?.stop());

  for (const part of ['redis', 'temporal', 'receiver', ...awayOnly] as const) {
    const outages = form.outagesSeconds.map((seconds) => away(part, seconds));
    for (const fault of [...outages, ...(part === 'postgresql' ? [] : badLines(part, badForMs))]) {
      it(`${fault.name}: recovers by itself`, async () => {
        await pause(500);
        const back = await run.inject(fault);
        const answers = run.publisher.answers[injected++];
        if (part !== 'redis' && answers?.refused !== 0) {
          const slow = await run.db.redis.call('LATENCY', 'LATEST');
          assert.fail(
            `not every event was taken: ${JSON.stringify(answers)}; Redis: ${JSON.stringify(slow)}`,
          );
        }
        console.log(`      ${JSON.stringify(answers)} recovered ${Date.now() - back} ms after the return`);
        assert.deepEqual(run.publisher.wrong.splice(0), [], logTail(run.system.logOf('api')));
        assert.deepEqual(run.system.brokenOff, []);
      });
    }
  }

  it('the backlog of the receiver’s outage is sent at a bounded rate', async () => {
    const { system, cast, db } = run;
    const { clientToken } = await createClient(db, {
      accountId: cast.publisher.account_id,
      name: 'Piled up',
    });
    await register(system.apiUrl, cast.publisherToken, clientToken, `${system.receiverUrl}/${clientToken}`);
    const piledUp = 4 * drainPerSecond;
    let ids: string[] = [];
    await run.inject({
      name: `receiver away, ${piledUp} owed`,
      async inject({ receiver }) {
        await receiver.breakOff();
        const events = Array.from({ length: piledUp }, (_, i) => ({
          ...{ client_token: clientToken, platform_id: `video-${i}`, segments: ['a'] },
        }));
        const { results } = await publishAll(run, events);
        ids = results.map((one) => one.notification_id ?? '');
        const failing = async () => (await getEndpoint(db, clientToken)).state === 'failing';
        while (!(await failing())) await pause(20);
        await receiver.open();
        return Date.now();
      },
    });
    const arrived = () => ids.flatMap((id) => system.receiver.arrivals.get(id) ?? []);
    while (arrived().length < piledUp) await pause(50);
    const most = mostInOneSecond(arrived());
    console.log(
      `${piledUp} notifications that one client was owed when its receiver came back arrived at up to ${most} in a second (\`DRAIN_PER_SECOND\` was ${drainPerSecond}).`,
    );
    // Requests in flight may arrive together with later ones, and unused places are kept for a tenth of a second.
    const allowed = 1.1 * drainPerSecond + inFlightPerClient;
    assert.ok(most <= allowed, `${most} in one second`);
  });

  it('loses nothing acknowledged, and repeats only what was in flight', async () => {
    const account = await run.account();
    console.table(account.rows);
    assertKept(account);
    // A line that hangs holds back POSTs that the service has long given up, and lets them through all at once.
    console.log(
      `At most ${run.system.receiver.mostInFlight} POSTs of one client were at the receiver at the same time.`,
    );
  });
});
