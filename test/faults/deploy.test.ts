/** A rolling restart under load: two APIs behind a balancer and two workers, ended by SIGTERM one after the other. */

import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { forSuite } from '../servers.js';
import { assertKept, startFaultRun } from './faultRun.js';
import { startLoop } from './load.js';
import { servers } from './system.js';

describe('a rolling restart', function () {
  this.timeout(180_000);
  const run = forSuite(() =>
    startFaultRun({
      parts: [...servers, 'api', 'api2', 'worker', 'worker2'],
      chooseApi: (system) => balancer?.choose() ?? system.apiUrl,
      assetsPerClient: 1000,
      env: { SHUTDOWN_DELAY_SECONDS: '1' },
    }),
  );
  let balancer: Balancer | undefined;

  before(async () => {
    balancer = await startBalancer([run.system.apiUrl, run.system.apiUrlOf('api2')]);
  });
  after(async () => {
    await balancer?.stop();
    await run?.stop();
  });

  it('of APIs and workers under load ends each process with 0, fails no call and sends nothing twice', async () => {
    const { system, publisher } = run;
    for (const part of ['worker', 'worker2', 'api2', 'api'] as const) {
      const from = Date.now();
      assert.equal(await system.end(part), 'exit status 0');
      await system.start(part);
      if (part === 'api' || part === 'api2') await untilCalled(part);
      const gone = part.startsWith('api') ? 'API' : 'worker';
      run.note(`rolling restart of ${gone}s`, Date.now() - from);
      await enough(100);
    }
    const account = await run.account();
    const failed = {
      events: publisher.answers.reduce((sum, one) => sum + one.withoutAnswer + one.refused, 0),
      tokens: run.minter.withoutAnswer,
      registrations: run.registrar.withoutAnswer,
    };
    assert.deepEqual(failed, { events: 0, tokens: 0, registrations: 0 });
    console.table(account.rows);
    assertKept(account);
    const repeated = [...system.receiver.arrivals].filter(([, times]) => times.length > 1);
    assert.deepEqual(repeated, []);
  });

  async function enough(more: number): Promise<void> {
    const wanted = run.publisher.acknowledged.length + more;
    while (run.publisher.acknowledged.length < wanted) await pause(20);
  }

  /** Waits until the balancer sends callers there again. */
  async function untilCalled(part: 'api' | 'api2'): Promise<void> {
    while (!balancer?.isReady(run.system.apiUrlOf(part))) await pause(20);
  }
});

type Balancer = Awaited<ReturnType<typeof startBalancer>>;

/** Chooses among several servers as a load balancer does: in turn, of those whose last /readyz was 200. */
async function startBalancer(urls: readonly string[]) {
  let ready: string[] = [];
  let turn = 0;
  const isReady = async (url: string): Promise<string[]> => {
    const asked = fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2000) });
    const answer = await asked.catch(() => undefined);
    await answer?.body?.cancel();
    return answer?.ok ? [url] : [];
  };
  const ask = async () => {
    ready = (await Promise.all(urls.map(isReady))).flat();
  };
  await ask();
  return {
    choose: () => ready[turn++ % ready.length] ?? urls[0] ?? '',
    isReady: (url: string) => ready.includes(url),
    stop: startLoop(ask, () => 200),
  };
}
