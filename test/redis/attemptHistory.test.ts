import assert from 'node:assert/strict';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { countAttempts, quantileMs, readAttempts, stepMs } from '../../src/redis/records/attemptHistory.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { servers, uniquePrefix } from '../servers.js';
import { type Harness, startHarness } from '../service.js';

describe('the results of attempts, in 5-minute steps', () => {
  const log = createLogger('silent', 'test');
  let db: Db;
  let offsetMs = 0;
  before(async () => {
    const prefix = uniquePrefix();
    db = openDb({ url: servers().redisUrl, prefix, log, clockOffsetMs: () => offsetMs });
    await waitForRedis(db, 5000);
  });
  after(() => db.redis.disconnect());

  it('add up over processes and steps, for a day, in little memory', async () => {
    const processes = [countAttempts(db, log), countAttempts(db, log)];
    for (let step = 0; step < 300; step++) {
      offsetMs = step * stepMs;
      for (const one of processes) {
        one.count('SITE', { ok: true }, 8);
        one.count('SITE', { ok: false, error: 'http_status' }, 700);
        one.count('OTHER', { ok: false, error: 'timeout' }, 60_000);
      }
      if (step % 7 === 0) for (const one of processes) await one.flush();
    }
    for (const one of processes) await one.close();
    const steps = await readAttempts(db, 'SITE');
    assert.equal(steps.length, 288);
    assert.equal(steps.at(-1)?.atMs, Math.floor((Date.now() + offsetMs) / stepMs) * stepMs);
    for (const { delivered, failed, latency } of steps) {
      assert.deepEqual([delivered, failed], [2, { http_status: 2 }]);
      assert.deepEqual(latency, [2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    }
    const key = db.client('SITE').attemptsBy(Math.floor((Date.now() + offsetMs) / 3_600_000) - 2);
    assert.ok((await db.redis.ttl(key)) > 24 * 3600);
    assert.ok(Number(await db.redis.call('MEMORY', 'USAGE', key)) < 1500);
  });

  it('give quantiles of the durations', () => {
    assert.equal(quantileMs([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0.5), undefined);
    assert.equal(quantileMs([10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 0.5), 5);
    assert.equal(quantileMs([0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0], 0.95), 98);
    assert.equal(quantileMs([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9], 0.5), 10_000);
  });

  describe('of real attempts', () => {
    let harness: Harness;
    let receiver: Receiver;
    before(async () => {
      [harness, receiver] = await Promise.all([startHarness(), startReceiver()]);
      await harness.startWorker();
    });
    after(async () => {
      await harness.close();
      await receiver.close();
    });

    it('count each by its result', async () => {
      const client = await harness.newClient(receiver.url);
      await harness.publish({ client, asset: 'good' });
      receiver.answer = ({ body }) => (body.includes('bad') ? 500 : 200);
      await harness.publish({ client, asset: 'bad' });
      const now = () => readAttempts(harness.db, client);
      const counted = async () =>
        (await now()).some((step) => step.delivered === 1) &&
        (await now()).some((step) => step.failed.http_status === 1);
      await until('both are counted', counted);
    });
  });
});
