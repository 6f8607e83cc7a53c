import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { Connection } from '@temporalio/client';
import { listenAdmin } from '../../src/api/admin.js';
import { createReadiness, lookEveryMs } from '../../src/api/readiness.js';
import { createMetrics } from '../../src/metrics.js';
import { askServer } from '../../src/temporal/askServer.js';
import { until } from '../delivery/harness.js';
import { startProxy } from '../proxy.js';
import { itWithOneRedis, servers } from '../servers.js';
import { startApi } from './runningApi.js';

const never = () => new Promise<never>(() => undefined);
const atOnce = async () => undefined;

describe('GET /healthz, GET /readyz', () => {
  it('200 {status, redis, temporal} where both answer', async () => {
    const api = await startApi();
    assert.equal((await fetch(`${api.url}/healthz`)).status, 200);
    const ready = await fetch(`${api.url}/readyz`);
    assert.equal(ready.status, 200);
    assert.deepEqual(await ready.json(), { status: 'ready', redis: true, temporal: true });
    await api.close();
  });

  itWithOneRedis('503 while Redis is away, and 200 when it is back', async () => {
    const proxy = await startProxy(servers().redisUrl);
    const cut = await startApi({ redisUrl: proxy.url });
    proxy.hang();
    const away = await fetch(`${cut.url}/readyz`);
    assert.equal(away.status, 503);
    assert.deepEqual(await away.json(), { status: 'not ready', redis: false, temporal: true });
    proxy.release();
    await until('it is ready', async () => (await fetch(`${cut.url}/readyz`)).status === 200);
    await cut.close();
    await proxy.close();
  });

  it('200 while Temporal is away, and says so', async () => {
    const proxy = await startProxy(`tcp://${servers().temporalAddress}`);
    const cut = await startApi({ temporalAddress: new URL(proxy.url).host });
    proxy.hang();
    const away = await fetch(`${cut.url}/readyz`);
    assert.equal(away.status, 200);
    assert.deepEqual(await away.json(), { status: 'ready', redis: true, temporal: false });
    proxy.release();
    await cut.close();
    await proxy.close();
  });

  it('503 once the process was told to end, on the admin port too', async () => {
    let isEnding = false;
    const readiness = createReadiness({ redis: atOnce, temporal: atOnce, ending: () => isEnding });
    const admin = await listenAdmin({ ADMIN_HOST: '127.0.0.1', ADMIN_PORT: 0 }, createMetrics(), readiness);
    const status = async () => (await fetch(`http://127.0.0.1:${admin.port}/readyz`)).status;
    assert.equal(await status(), 200);
    isEnding = true;
    assert.equal(await status(), 503);
    await admin.close();
  });

  it('all who ask within a second share one look', async () => {
    const looks = { redis: 0, temporal: 0 };
    const readiness = createReadiness({
      redis: async () => looks.redis++,
      temporal: async () => looks.temporal++,
      ending: () => false,
    });
    const began = performance.now();
    const answers = await Promise.all(Array.from({ length: 1000 }, readiness));
    assert.ok(answers.every(({ status }) => status === 'ready'));
    for (let i = 0; i < 1000; i++) await readiness();
    assert.ok(performance.now() - began < lookEveryMs, 'the machine is too slow for this test');
    assert.deepEqual(looks, { redis: 1, temporal: 1 });
    await until('the next look', async () => {
      await readiness();
      return looks.redis === 2 && looks.temporal === 2;
    });
  });

  it('a server that does not answer holds up one call, however many ask', async () => {
    let calls = 0;
    const silent = () => {
      calls++;
      return never();
    };
    const readiness = createReadiness({ redis: silent, temporal: atOnce, ending: () => false });
    for (let i = 0; i < 3; i++) {
      assert.deepEqual(await readiness(), { status: 'not ready', redis: false, temporal: true });
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
    assert.equal(calls, 1);
  });

  it('the deadline ends the call to Temporal, not only the wait for it', async () => {
    const proxy = await startProxy(`tcp://${servers().temporalAddress}`);
    const connection = await Connection.connect({ address: new URL(proxy.url).host });
    proxy.hang();
    await assert.rejects(askServer(connection, 100), /DEADLINE_EXCEEDED|Deadline/i);
    proxy.release();
    await connection.close();
    await proxy.close();
  });

  it('ADMIN_HOST is where the admin port listens, and nowhere else', async () => {
    const readiness = createReadiness({ redis: atOnce, temporal: atOnce, ending: () => false });
    const admin = await listenAdmin({ ADMIN_HOST: '127.0.0.2', ADMIN_PORT: 0 }, createMetrics(), readiness);
    assert.equal((await fetch(`http://127.0.0.2:${admin.port}/healthz`)).status, 200);
    const other = createServer().listen(admin.port, '127.0.0.1');
    await new Promise((resolve, reject) => other.once('listening', resolve).once('error', reject));
    other.close();
    await admin.close();
  });
});
