/**
 * What `docker-compose.yml` ships, run in a Docker engine as the guides say (`npm run test:compose`). Its steps follow one
 * another; a light load goes on during kills, restarts and the upgrade, and each notification that was promised must arrive.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { startPublisher } from '../faults/load.js';
import { register } from '../faults/scene.js';
import { until } from '../receiver.js';
import { newToken } from '../service.js';
import { hasEngine, prepareStack, type Stack } from './composeStack.js';
import { operatorsPages } from './guideCommands.js';

const operator =
  'docker compose exec -e OPERATOR_NAME="$USER" all node dist/src/operator/main.js account create --name "Some Media"';
const services = ['all', 'redis', 'temporal', 'postgresql', 'temporal-ui', 'balancer'];

describe('The stack of docker-compose.yml', function () {
  this.timeout(20 * 60_000);
  this.bail(true);
  let stack: Stack;
  let platform: string;
  let load: Load | undefined;

  before(async function () {
    if (!(await hasEngine())) {
      console.log('There is no Docker engine on PATH: the stack was not started.');
      this.skip();
    }
    stack = await prepareStack();
  });
  afterEach(async function () {
    if (this.currentTest?.state === 'failed')
      console.log(await stack.shell('docker compose ps -a; docker compose logs --tail 40'));
  });
  after(async () => {
    void load?.stop();
    await stack?.remove();
  });

  /** Looks twice a second: a look is a program or a call, which may fail meanwhile. */
  const seen = (what: string, look: () => Promise<boolean>, ms: number) =>
    until(
      what,
      () =>
        sleep(500)
          .then(look)
          .catch(() => false),
      ms,
    );
  const ready = () =>
    seen('the API is ready', async () => (await fetch(`${stack.apiUrl}/readyz`)).ok, 180_000);
  const asOperator = async (words: string) =>
    JSON.parse(
      await stack.shell(operator.replace('exec', 'exec -T').replace(/account create.*/, `${words} --json`)),
    );
  const healthy = async (service: string) =>
    (await stack.shell(`docker compose ps ${service} --format "{{.Health}}"`)).match(/^healthy$/gm)?.length;
  const allHealthy = () =>
    seen(
      'each service is healthy',
      async () => (await Promise.all(services.map(healthy))).every((count) => count !== undefined),
      120_000,
    );
  const images = async (service: string) =>
    (await stack.shell(`docker compose ps ${service} --format "{{.Image}}"`)).trim().split('\n');
  const settled = async () => {
    await ready();
    const { acknowledged } = load ?? assert.fail();
    const more = acknowledged.length + 5;
    await seen('events are accepted again', async () => acknowledged.length >= more, 60_000);
    const allArrived = async () => {
      const promised = [...acknowledged];
      const received = await stack.received();
      return promised.every(({ notificationId }) => received.has(notificationId));
    };
    await seen('all that was promised has arrived', allArrived, 180_000);
  };

  it('starts from an `.env` with three secrets, and delivers an event', async () => {
    await stack.guide('docker compose up --build', ' -d');
    await ready();
    const account = JSON.parse(await stack.guide(operator, ' --json'));
    const client = await asOperator(
      `client create --account ${account.account_id} --name "Some Site" --token SITE0042`,
    );
    const owner = await asOperator('account create --name "The platform" --scope enrichments');
    const token = await newToken({ url: stack.apiUrl }, account);
    platform = await newToken({ url: stack.apiUrl }, owner);
    await register(stack.apiUrl, token, client.client_token, stack.receiverUrl);
    load = startLoad(stack.apiUrl, platform);
    await seen('the first events arrive', async () => (await stack.received()).size >= 5, 60_000);
    await allHealthy();
  });

  for (const name of services) {
    it(`loses nothing when ${name} is killed`, async () => {
      await stack.shell(`docker compose kill ${name}`);
      await sleep(2000);
      await stack.guide('docker compose up -d');
      await settled();
      await allHealthy();
    });
  }

  it('loses nothing when it is restarted, or goes down and up with its volumes', async () => {
    await stack.shell('docker compose restart');
    await settled();
    await stack.shell('docker compose down');
    await stack.guide('docker compose up -d');
    await settled();
  });

  it('runs four processes, and replaces them by another image under load', async () => {
    await stack.set('PROCESSES', 4);
    await stack.guide('docker compose up -d');
    await seen('four are healthy', async () => (await healthy('all')) === 4, 300_000);
    await stack.tag('next');
    await stack.guide('docker compose up -d --build');
    await seen(
      'the new image runs',
      async () => (await images('all')).every((image) => image.endsWith(':next')),
      120_000,
    );
    await settled();
  });

  it('stops at once, also while Redis is away', async () => {
    await stack.guide('docker compose stop redis');
    await stack.shell('docker compose stop all');
    const codes = await stack.shell('docker compose ps -a all --format "{{.ExitCode}}"');
    assert.deepEqual([...new Set(codes.trim().split('\n'))], ['0']);
    await stack.guide('docker compose up -d');
    await settled();
  });

  it('shows metrics and alerts in the profile `observe`', async () => {
    const grafana = /image: (grafana\S+)/.exec(
      await stack.shell('docker compose --profile observe config'),
    )?.[1];
    const has = await stack.shell(`docker pull -q ${grafana}`).catch(() => '');
    if (!has) console.log(`      ${grafana} cannot be had here: no Grafana was started`);
    await stack.guide('docker compose --profile observe up -d', has ? '' : ' prometheus alertmanager alerts');
    const ask = (query: string) =>
      stack.shell(
        `docker compose exec -T prometheus wget -qO- "http://127.0.0.1:9090/api/v1/query?query=${query}"`,
      );
    await seen(
      'each process is scraped',
      async () => (await ask('sum(up)')).includes(`"${await healthy('all')}"]`),
      90_000,
    );
    await stack.shell('docker compose stop all');
    const shown = async () => await stack.guide('docker compose logs alerts');
    await seen('the log shows an alert', async () => (await shown()).includes('NoApi: '), 300_000);
    await stack.guide('docker compose up -d');
    await settled();
  });

  it('is backed up and restored as the guide says: what came later is gone, what was there is back', async () => {
    // What is published after the copy would be gone.
    await settled();
    await load?.stop();
    const restores = /stop redis|run --rm .* redis|start redis|stop temporal$|pg_restore|start temporal$/;
    const lines = operatorsPages().get('docs/guides/disaster.md') ?? [];
    for (const line of lines.filter((one) => !restores.test(one) && one.includes(' exec ')))
      await stack.guide(line);
    const late = await asOperator('account create --name "After the copy"');
    for (const line of lines.filter((one) => restores.test(one))) await stack.guide(line);
    await ready();
    const names = JSON.stringify(await asOperator('account list'));
    assert.ok(names.includes('Some Media'));
    assert.ok(!names.includes(late.account_id), 'the restored store is the copy');
    load = startLoad(stack.apiUrl, platform);
    await settled();
  });

  it('every other command for Docker of the guides works', async () => {
    for (const [page, lines] of operatorsPages()) {
      for (const line of lines.filter((one) => !stack.ran.has(one))) {
        await stack.guide(line).catch((err: unknown) => assert.fail(`${page}: ${line}\n${err}`));
      }
    }
    await ready();
  });
});

type Load = ReturnType<typeof startLoad>;

/** Publishes about five events a second, each of an asset of its own. */
const startLoad = (apiUrl: string, platformToken: string) =>
  startPublisher({
    apiUrl: () => apiUrl,
    fault: () => 0,
    cast: { clientTokens: ['SITE0042'], platformToken },
    assetsPerClient: 2 ** 40,
    publishers: 1,
    pauseMs: 400,
  });
