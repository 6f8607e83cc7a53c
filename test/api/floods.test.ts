import assert from 'node:assert/strict';
import { createFailureLimits } from '../../src/api/steps/limits.js';
import { startProxy } from '../proxy.js';
import { itWithOneRedis, opened, servers } from '../servers.js';
import { type Harness, newCustomer, startHarness, tokenFields } from '../service.js';

describe('brute force and floods', () => {
  const ask = (api: Harness, fields: Record<string, string>) =>
    fetch(`${api.url}/oauth/access_token`, { method: 'POST', body: new URLSearchParams(fields) });

  itWithOneRedis(
    'while Redis is unavailable: answers no guess, and keeps refusing refused addresses, also when Redis is back',
    async () => {
      const proxy = opened(await startProxy(servers().redisUrl));
      const api = opened(await startHarness({ REDIS_URL: proxy.url }, 'api'));
      const customer = await newCustomer(api);
      const refused = await newCustomer(api);
      const guess = (of: typeof customer) => ask(api, { ...tokenFields(of), client_secret: 'guess' });
      for (let i = 0; i < 11; i++) await guess(refused);
      proxy.hang();
      const statuses = await Promise.all(
        Array.from({ length: 30 }, async () => (await guess(customer)).status),
      );
      assert.deepEqual(new Set(statuses), new Set([503]));
      assert.equal((await ask(api, tokenFields(customer))).status, 503);
      for (let i = 0; i < 3; i++) assert.equal((await guess(refused)).status, 429);
      assert.equal((await ask(api, tokenFields(refused))).status, 429);
      proxy.release();
      while ((await fetch(`${api.url}/readyz`)).status !== 200);
      assert.equal((await guess(refused)).status, 429);
      assert.equal((await ask(api, tokenFields(customer))).status, 200);
    },
  );

  itWithOneRedis('counts failures in memory when the count is lost on its way to Redis', async () => {
    const proxy = opened(await startProxy(servers().redisUrl));
    const api = opened(await startHarness({ REDIS_URL: proxy.url }, 'api'));
    const limits = createFailureLimits(api.db);
    proxy.hang();
    const counted = await Promise.allSettled(
      Array.from({ length: 15 }, () => limits.count('somebody', '203.0.113.7')),
    );
    const statuses = counted.map((one) => (one.status === 'rejected' ? one.reason.status : 401));
    assert.deepEqual(statuses, [...Array(10).fill(401), ...Array(5).fill(429)]);
  });
});
