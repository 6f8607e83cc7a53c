import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { createReadiness, listenAdmin, lookEveryMs } from '../../src/http/admin.js';
import { createMetrics } from '../../src/metrics.js';
import { until } from '../receiver.js';
import { opened } from '../servers.js';

const never = () => new Promise<never>(() => undefined);
const immediately = async () => undefined;
const readinessOf = (given: Partial<Parameters<typeof createReadiness>[0]> = {}) =>
  createReadiness({ redis: immediately, temporal: immediately, ending: () => false, ...given });
const admin = async (host: string, readiness = readinessOf()) =>
  opened(await listenAdmin({ ADMIN_HOST: host, ADMIN_PORT: 0 }, createMetrics(), readiness)).port;

describe('GET /healthz, GET /readyz', () => {
  it('answers 503 once the process was told to stop, also on the admin port', async () => {
    let isEnding = false;
    const port = await admin('127.0.0.1', readinessOf({ ending: () => isEnding }));
    const status = async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).status;
    assert.equal(await status(), 200);
    isEnding = true;
    assert.equal(await status(), 503);
  });

  it('shares one check among all callers within a second', async () => {
    const looks = { redis: 0, temporal: 0 };
    const readiness = readinessOf({
      redis: async () => looks.redis++,
      temporal: async () => looks.temporal++,
    });
    const began = performance.now();
    const answers = await Promise.all(Array.from({ length: 1000 }, readiness));
    assert.ok(answers.every(({ status }) => status === 'ready'));
    for (let i = 0; i < 1000; i++) await readiness();
    const atMost = 1 + Math.floor((performance.now() - began) / lookEveryMs);
    assert.ok(looks.redis <= atMost && looks.temporal <= atMost, JSON.stringify({ looks, atMost }));
    await until('the next look', async () => {
      await readiness();
      return looks.redis > atMost && looks.temporal > atMost;
    });
  });

  it('makes one call to a server that does not answer, for any number of callers', async () => {
    let calls = 0;
    const silent = () => {
      calls++;
      return never();
    };
    const readiness = readinessOf({ redis: silent });
    for (let i = 0; i < 2; i++) {
      const said = { status: 'not ready', redis: false, temporal: true, reasons: ['away'] };
      assert.deepEqual(await readiness(), said);
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
    assert.equal(calls, 1);
  });

  it('listens with the admin port only on ADMIN_HOST', async function () {
    // Another process may have the same port of 127.0.0.1.
    this.retries(3);
    const port = await admin('127.0.0.2');
    assert.equal((await fetch(`http://127.0.0.2:${port}/healthz`)).status, 200);
    const other = createServer().listen(port, '127.0.0.1');
    await new Promise((resolve, reject) => other.once('listening', resolve).once('error', reject));
    other.close();
  });
});
