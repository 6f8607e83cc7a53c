/**
 * Two versions of API and workers at once, under load and with thousands owed: a rollout, a ramp and a rollback, by the
 * commands of docs/upgrading.md. SHOW_COMMANDS=1 prints each with its output.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { temporalBinary } from '../../local/binaries.js';
import { getEndpoint, pauseEndpoint, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { type Balancer, startBalancer } from './balancer.js';
import { assertKept, type FaultRun, startFaultRun } from './faultRun.js';
import { pause } from './pause.js';
import { report } from './report.js';

const deployment = ['--deployment-name', 'notifications'];
const owedAssets = 5000;

describe('a rollout, a ramp and a rollback of worker versions', function () {
  this.timeout(400_000);
  let run: FaultRun;
  let balancer: Balancer;
  let owing: string;

  before(async () => {
    run = await startFaultRun({
      parts: ['redis', 'temporal', 'api', 'worker'],
      chooseApi: (system) => balancer?.choose() ?? system.apiUrl,
      assetsPerClient: 5000,
      clients: 6,
      publishers: 4,
      env: {
        DRAIN_PER_SECOND: '60',
        MAX_IN_FLIGHT: '8',
        WORKFLOWS_PER_SECOND: '3',
        SHUTDOWN_DELAY_SECONDS: '1',
      },
      envOf: {
        ...{ api: buildId('1.0'), worker: buildId('1.0') },
        ...{ api2: buildId('2.0'), worker2: buildId('2.0') },
      },
      temporalArgs: [
        ...['VersionDrainageStatusRefreshInterval', 'VersionDrainageStatusVisibilityGracePeriod'].flatMap(
          (name) => ['--dynamic-config-value', `matching.wv.${name}="5s"`],
        ),
      ],
    });
    owing = run.cast.clientTokens[0] ?? '';
    balancer = await startBalancer([run.system.apiUrl, run.system.apiUrlOf('api2')]);
  });
  after(async () => {
    await balancer?.stop();
    await run?.stop();
  });

  it('loses nothing and sends nothing twice, with thousands owed and in flight', async () => {
    const { system, db } = run;
    await step('the first version makes itself current', async () => {
      await until(async () => (await temporal('describe', '--name', 'notifications')).includes('1.0'));
      await until(async () => (await enrichmentsOf('1.0')) > 10);
    });
    await step('a client is owed thousands', async () => {
      await pauseEndpoint(db, owing);
      await publishMany();
      await until(async () => (await getEndpoint(db, owing)).owed >= owedAssets);
    });
    await step('the second version starts beside it and gets no work', async () => {
      await system.start('api2');
      await system.start('worker2');
      await until(() => balancer.isReady(system.apiUrlOf('api2')));
      await until(async () => (await temporal('describe', '--name', 'notifications')).includes('2.0'));
      await enough(200);
      assert.equal(await enrichmentsOf('2.0'), 0);
    });
    await step('a ramp: some of the new workflows', async () => {
      await temporal(
        'set-ramping-version',
        ...deployment,
        '--build-id',
        '2.0',
        '--percentage',
        '20',
        '--yes',
      );
      const before = await enrichmentsOf('1.0');
      await until(async () => (await enrichmentsOf('2.0')) > 5 && (await enrichmentsOf('1.0')) > before + 10);
      await temporal('describe', '--name', 'notifications');
    });
    await step('it is made current while the owed drain', async () => {
      await unpauseEndpoint(db, owing);
      await wake();
      await until(async () => (await getEndpoint(db, owing)).owed < owedAssets - 500);
      await temporal('set-current-version', ...deployment, '--build-id', '2.0', '--yes');
      const before = await enrichmentsOf('2.0');
      await until(async () => (await enrichmentsOf('2.0')) > before + 10);
      await until(async () => (await catchUpVersion()) === '2.0');
      assert.ok((await getEndpoint(db, owing)).owed > 0, 'it is still drained');
    });
    await step('a rollback: the first version is current again', async () => {
      await temporal('set-current-version', ...deployment, '--build-id', '1.0', '--yes');
      const before = await enrichmentsOf('1.0');
      await until(async () => (await enrichmentsOf('1.0')) > before + 10);
      await until(
        async () => (await catchUpVersion()) === '1.0' || (await getEndpoint(db, owing)).owed === 0,
      );
    });
    await step('the second version is drained, and ends', async () => {
      await until(async () =>
        / drained/.test(await temporal('describe-version', ...deployment, '--build-id', '2.0')),
      );
      assert.equal(await system.end('worker2'), 'exit status 0');
      assert.equal(await system.end('api2'), 'exit status 0');
      await enough(100);
    });
    const account = await run.account();
    await until(async () => (await getEndpoint(db, owing)).owed === 0);
    report(account.rows);
    assertKept(account, 6);
    const repeated = [...system.receiver.arrivals].filter(([, times]) => times.length > 1);
    assert.deepEqual(repeated, []);
    const delivered = [...published].filter((id) => system.receiver.arrivals.has(id));
    assert.deepEqual([published.size, delivered.length], [owedAssets, owedAssets]);
  });

  const published = new Set<string>();

  /** Publishes events of assets that no other publisher has; sends refused ones again. */
  async function publishMany(): Promise<void> {
    let left = Array.from({ length: owedAssets }, (_, i) => ({
      client_token: owing,
      platform_id: `owed-${i}`,
      segments: ['a'],
    }));
    while (left.length > 0) {
      const events = left.splice(0, 500);
      const response = await fetch(`${run.system.apiUrl}/enrichments`, {
        method: 'POST',
        headers: { authorization: `Bearer ${run.cast.platformToken}`, 'content-type': 'application/json' },
        body: JSON.stringify({ events }),
      });
      const { results = [] } = (await response.json()) as { results?: { notification_id?: string }[] };
      const isTaken = (i: number) => results[i]?.notification_id !== undefined;
      left = left.concat(events.filter((_, i) => !isTaken(i)));
      for (const { notification_id } of results) {
        if (notification_id === undefined) continue;
        published.add(notification_id);
        run.beside.add(notification_id);
      }
    }
  }

  async function step(name: string, work: () => Promise<void>): Promise<void> {
    const from = Date.now();
    show(`\n--- ${name}`);
    await work();
    run.note(name, Date.now() - from);
  }

  /** Runs a command; repeats it if a busy server did not answer in time. */
  async function temporal(command: string, ...args: string[]): Promise<string> {
    const given = ['worker', 'deployment', command, ...args];
    for (let tries = 1; ; tries++) {
      try {
        const stdout = await cli(...given);
        show(`$ temporal ${given.join(' ')}\n${stdout}`);
        return stdout;
      } catch (err) {
        if (tries === 10) throw err;
      }
    }
  }

  async function cli(...args: string[]): Promise<string> {
    const address = ['--address', run.system.temporalAddress];
    return (await promisify(execFile)(await temporalBinary(), [...args, ...address])).stdout;
  }

  /** Counts enrichments that ran on a version. */
  async function enrichmentsOf(version: string): Promise<number> {
    return await count(
      `WorkflowType = 'enrichment' AND TemporalWorkerDeploymentVersion = 'notifications:${version}'`,
    );
  }

  async function catchUpVersion(): Promise<string | undefined> {
    const query = (version: string) =>
      `WorkflowType = 'catch-up' AND ExecutionStatus = 'Running' AND ClientToken = '${owing}' AND TemporalWorkerDeploymentVersion = 'notifications:${version}'`;
    for (const version of ['1.0', '2.0']) if ((await count(query(version))) > 0) return version;
    return undefined;
  }

  async function count(query: string): Promise<number> {
    const stdout = await cli('workflow', 'count', '--query', query, '--output', 'json');
    return Number((JSON.parse(stdout) as { count?: string }).count ?? 0);
  }

  async function wake(): Promise<void> {
    await fetch(`${run.system.apiUrl}/push_notifications/resume?client_token=${owing}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${run.cast.publisherToken}` },
    });
  }

  async function enough(more: number): Promise<void> {
    const wanted = run.publisher.acknowledged.length + more;
    while (run.publisher.acknowledged.length < wanted) await pause(20);
  }

  /** Looks until it is true, and again if a busy server did not answer in time. */
  async function until(look: () => Promise<boolean> | boolean): Promise<void> {
    while (!(await Promise.resolve(look()).catch(() => false))) await pause(1000);
  }
});

function buildId(id: string): Record<string, string> {
  return { TEMPORAL_WORKER_BUILD_ID: id };
}

function show(text: string): void {
  if (process.env.SHOW_COMMANDS) console.log(text);
}
