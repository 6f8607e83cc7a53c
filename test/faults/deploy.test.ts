/**
 * A rolling restart under load: two APIs behind a balancer and two workers, ended by SIGTERM one after the other; and one from another
 * release to this one and back (docs/reliability.md#two-releases).
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { forSuite } from '../servers.js';
import { assertKept, type FaultRun, startFaultRun } from './faultRun.js';
import { startLoop } from './load.js';
import { servers } from './system.js';

/** The folder of another build of the service. */
const other = process.env.FAULT_OTHER;

describe('a rolling restart', function () {
  this.timeout(180_000);
  const { run, roll } = useRolling();

  it('of APIs and workers under load ends each process with 0, fails no call and sends nothing twice', async () => {
    await roll();
    await assertUnnoticed(run);
    const repeated = [...run.system.receiver.arrivals].filter(([, times]) => times.length > 1);
    assert.deepEqual(repeated, []);
  });
});

for (const together of [false, true])
  describe(`a change of release, ${together ? 'API and worker in one process' : 'roles apart'}`, function () {
    this.timeout(400_000);
    const { run, roll } = useRolling({ together, folder: other ?? '' });

    it('forth and back under load, with a receiver away meanwhile, loses nothing and fails no call and no task', async () => {
      const { system } = run;
      for (const folder of [undefined, other]) {
        await system.receiver.breakOff();
        await enough(run, 100);
        await roll(folder, (done) => done === 1 && system.receiver.open());
      }
      await assertUnnoticed(run);
      assert.deepEqual(
        run.parts.flatMap((part) => failedTasks(system.logOf(part))),
        [],
      );
    });
  });

type Rolled = 'api' | 'api2' | 'worker' | 'worker2';

/** Declares a suite of two of each process under load, or two of both in one; without the other build that it is to begin with, it is left out. */
function useRolling({ together = false, folder }: { together?: boolean; folder?: string } = {}) {
  const parts: Rolled[] = together ? ['api2', 'api'] : ['worker', 'worker2', 'api2', 'api'];
  let balancer: Balancer | undefined;
  before(function () {
    if (folder === '') this.skip();
  });
  const run = forSuite(async () => {
    const started = await startFaultRun({
      parts: [...servers, ...parts],
      chooseApi: (system) => balancer?.choose() ?? system.apiUrl,
      assetsPerClient: 1000,
      // A receiver that the machine has no time for is sent nothing again.
      env: { SHUTDOWN_DELAY_SECONDS: '1', ATTEMPT_TIMEOUT_SECONDS: '30' },
      together,
      ...(folder && { folder }),
    });
    balancer = await startBalancer([started.system.apiUrl, started.system.apiUrlOf('api2')]);
    return Object.assign(started, { parts });
  });
  after(async () => {
    await balancer?.stop();
    await run?.stop?.();
  });

  /** Ends each process and starts it again. @param to the folder of the build that runs then */
  async function roll(to?: string, onDone: (done: number) => unknown = () => undefined): Promise<void> {
    const { system } = run;
    for (const [i, part] of parts.entries()) {
      const from = Date.now();
      assert.equal(await system.end(part), 'exit status 0');
      await system.start(part, to);
      const isApi = part.startsWith('api');
      // The balancer sends callers there again.
      while (isApi && !balancer?.isReady(system.apiUrlOf(part as 'api'))) await pause(20);
      run.note(`rolling restart of ${isApi ? 'API' : 'worker'}s`, Date.now() - from);
      await enough(run, 100);
      await onDone(i + 1);
    }
  }
  return { run, roll };
}

async function enough({ publisher }: FaultRun, more: number): Promise<void> {
  const wanted = publisher.acknowledged.length + more;
  while (publisher.acknowledged.length < wanted) await pause(20);
}

/** Ends the load: no caller has noticed anything, and nothing is lost. */
async function assertUnnoticed(run: FaultRun): Promise<void> {
  const account = await run.account();
  const { publisher, minter, registrar } = run;
  const failed = {
    events: publisher.answers.reduce((sum, one) => sum + one.withoutAnswer + one.refused, 0),
    tokens: minter.withoutAnswer,
    registrations: registrar.withoutAnswer,
  };
  console.table(account.rows);
  assert.deepEqual(failed, { events: 0, tokens: 0, registrations: 0 });
  assertKept(account);
}

/** Releases say it in different words. */
const failedTasks = (logFile: string): string[] =>
  readFileSync(logFile, 'utf8')
    .split('\n')
    .filter((line) => /a workflow task failed|Failing workflow task/.test(line));

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
