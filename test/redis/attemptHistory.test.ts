import assert from 'node:assert/strict';
import { createLogger } from '../../src/log.js';
import { countAttempts, quantileMs, readAttempts, stepMs } from '../../src/redis/records/attemptHistory.js';
import { newDeliveryClient } from './deliveryClient.js';

describe('the results of attempts, in 5-minute steps', () => {
  it('add up over processes and steps, for a day, in little memory', async () => {
    // Else a boundary of the steps could come between what is counted together.
    const { db, pass, now } = await newDeliveryClient({}, undefined, Date.now());
    const log = createLogger('silent', 'test');
    const processes = [countAttempts(db, log), countAttempts(db, log)];
    for (let step = 0; step < 300; step++) {
      pass(stepMs);
      for (const one of processes) {
        one.count('SITE', { ok: true }, 8);
        one.count('SITE', { ok: false, error: 'http_status' }, 700);
        one.count('OTHER', { ok: false, error: 'timeout' }, 60_000);
      }
      if (step % 7 === 0) for (const one of processes) await one.close();
    }
    for (const one of processes) await one.close();
    const steps = await readAttempts(db, 'SITE');
    assert.equal(steps.length, 288);
    assert.equal(steps.at(-1)?.atMs, Math.floor(now() / stepMs) * stepMs);
    for (const { delivered, failed, latency } of steps) {
      assert.deepEqual([delivered, failed], [2, { http_status: 2 }]);
      assert.deepEqual(latency, [2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    }
    const key = db.client('SITE').attemptsBy(Math.floor(now() / 3_600_000) - 2);
    assert.ok((await db.redis.ttl(key)) > 24 * 3600);
    assert.ok(Number(await db.redis.call('MEMORY', 'USAGE', key)) < 1500);
  });

  it('give quantiles of the durations', () => {
    assert.equal(quantileMs([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0.5), undefined);
    assert.equal(quantileMs([10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0.5), 5);
    assert.equal(quantileMs([0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0], 0.95), 98);
    assert.equal(quantileMs([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9], 0.5), 10_000);
  });
});
