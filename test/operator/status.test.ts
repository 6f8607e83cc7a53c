import assert from 'node:assert/strict';
import { createLogger } from '../../src/log.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { noteSweepEnd } from '../../src/redis/sweep/counts.js';
import { createSweepSchedule } from '../../src/temporal/sweepSchedule.js';
import { type Harness, startHarness, until } from '../delivery/harness.js';
import { type Cli, openCli } from './cli.js';

describe('operator: status says that it is us when', () => {
  let h: Harness;
  let cli: Cli;
  before(async () => {
    h = await startHarness();
    cli = await openCli({ KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue });
    await h.startWorker();
  });
  after(async () => {
    cli.close();
    await h.close();
  });

  async function owing(): Promise<string> {
    const client = await h.newClient('http://127.0.0.1:9/hook');
    await setPaused(h.db, client, true);
    await h.publish({ client, asset: 'vid-1' });
    return client;
  }

  it('the keys of a client are broken, names it and counts the others', async () => {
    const [broken] = await Promise.all([owing(), owing()]);
    const { owed } = h.db.client(broken);
    await h.db.redis.rename(owed, `${owed}:aside`);
    await h.db.redis.set(owed, 'no hash');
    const status = await cli.json('status');
    assert.deepEqual(
      [status.verdict, status.because],
      ['us', `The keys of some clients are broken: ${broken}.`],
    );
    assert.deepEqual([status.broken_clients, status.owed, status.owed_clients], [[broken], 1, 1]);
    await h.db.redis.rename(`${owed}:aside`, owed);
    const { broken_clients, verdict } = await cli.json('status');
    assert.deepEqual([broken_clients, verdict], [[], 'fine']);
  });

  it('no sweep has completed for 3 minutes', async () => {
    assert.deepEqual((await cli.json('status')).sweep, {
      completed_at: null,
      started_at: null,
      paused: null,
    });
    h.skip(-240_000);
    await noteSweepEnd(h.db, { brokenClients: 0 });
    h.skip(240_000);
    const status = await cli.json('status');
    assert.equal(status.verdict, 'us');
    assert.match(status.because, /^No sweep has completed for 4 min\.$/);
    await h.sweep();
    const { sweep, verdict } = await cli.json('status');
    assert.ok(Date.parse(sweep.completed_at) <= Date.now());
    assert.equal(verdict, 'fine');
  });

  it('the schedule of the sweep is paused, and names the reason', async () => {
    await createSweepSchedule(h.temporal, h.taskQueue, createLogger('silent', 'test')).ensure();
    const handle = h.temporal.schedule.getHandle(h.ids.sweep);
    try {
      await handle.pause('Ada: Redis is being moved');
      await until('paused', async () => (await handle.describe()).state.paused);
      const status = await cli.json('status');
      assert.equal(status.verdict, 'us');
      assert.equal(status.because, 'The schedule of the sweep is paused: Ada: Redis is being moved');
      assert.equal(status.sweep.paused, 'Ada: Redis is being moved');
      assert.match((await cli.run(['status'])).stdout, /^sweep +ran .* ago, paused$/m);
    } finally {
      await handle.delete();
    }
  });
});
