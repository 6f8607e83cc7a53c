import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { createReadiness, listenAdmin, lookEveryMs } from '../../src/api/admin.js';
import { createMetrics } from '../../src/metrics.js';
import { startProxy } from '../proxy.js';
import { until } from '../receiver.js';
import { itWithOneRedis, servers } from '../servers.js';
import { startApi } from '../service.js';

const never = () => new Promise<never>(() => undefined);
const immediately = async () => undefined;

describe('GET /healthz, GET /readyz', () => {
  it('answers 200 {status, redis, temporal} when both answer', async () => {
    const api = await startApi();
    assert.equal((await fetch(`${api.url}/healthz`)).status, 200);
    const ready = await fetch(`${api.url}/readyz`);
    assert.equal(ready.status, 200);
    assert.deepEqual(await ready.json(), { status: 'ready', redis: true, temporal: true });
    await api.close();
  });

  itWithOneRedis('answers 503 while Redis is unavailable, and 200 when it is back', async () => {
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

  it('answers 200 while Temporal is unavailable, and says so', async () => {
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

  it('answers 503 once the process was told to stop, also on the admin port', async () => {
    let isEnding = false;
    const readiness = createReadiness({ redis: immediately, temporal: immediately, ending: () => isEnding });
    const admin = await listenAdmin({ ADMIN_HOST: '127.0.0.1', ADMIN_PORT: 0 }, createMetrics(), readiness);
    const status = async () => (await fetch(`http://127.0.0.1:${admin.port}/readyz`)).status;
    assert.equal(await status(), 200);
    isEnding = true;
    assert.equal(await status(), 503);
    await admin.close();
  });

  it('shares one check among all callers within a second', async () => {
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

  it('makes one call to a server that does not answer, for any number of callers', async () => {
    let calls = 0;
    const silent = () => {
      calls++;
      return never();
    };
    const readiness = createReadiness({ redis: silent, temporal: immediately, ending: () => false });
    for (let i = 0; i < 3; i++) {
      assert.deepEqual(await readiness(), { status: 'not ready', redis: false, temporal: true });
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
    assert.equal(calls, 1);
  });

  it('listens with the admin port only on ADMIN_HOST', async () => {
    const readiness = createReadiness({ redis: immediately, temporal: immediately, ending: () => false });
    const admin = await listenAdmin({ ADMIN_HOST: '127.0.0.2', ADMIN_PORT: 0 }, createMetrics(), readiness);
    assert.equal((await fetch(`http://127.0.0.2:${admin.port}/healthz`)).status, 200);
    const other = createServer().listen(admin.port, '127.0.0.1');
    await new Promise((resolve, reject) => other.once('listening', resolve).once('error', reject));
    other.close();
    await admin.close();
  });
});
