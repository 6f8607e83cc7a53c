/** The counts of the sweep, and the cost of a scrape of the metrics. */
import assert from 'node:assert/strict';
import { createMetrics } from '../../src/metrics.js';
import { readAttempts } from '../../src/redis/records/attemptHistory.js';
import { readCounts } from '../../src/redis/records/counts.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { watchCounts } from '../../src/storeMetrics.js';
import { runSweep } from '../../src/upkeep/sweep.js';
import { until } from '../receiver.js';
import { useHarness } from '../service.js';

describe('Counts of the sweep', () => {
  const scene = useHarness();

  /** The metrics as they are scraped. */
  async function scrape(): Promise<(name: string) => number | undefined> {
    const metrics = createMetrics();
    watchCounts(metrics, () => readCounts(scene.h.db));
    const lines = (await metrics.registry.metrics()).split('\n');
    return (name) => {
      const line = lines.find((each) => each.startsWith(`asset_update_${name} `));
      return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ') + 1));
    };
  }

  it('are absent until a sweep has counted', async () => {
    const value = await scrape();
    for (const name of ['owed_notifications', 'broken_clients', 'sweep_completed_timestamp_seconds']) {
      assert.equal(value(name), undefined, name);
    }
  });

  it('are owed notifications and clients, registrations by state and catch-ups, with their age and the end of the sweep', async () => {
    const { h, client: paused } = scene;
    await setPaused(h.db, paused, true);
    for (const asset of ['a', 'b']) await h.publish({ client: paused, asset });
    await until('its catch-up sleeps', async () => (await h.endpoint(paused)).waitingReason === 'paused');
    await h.sweep();
    const value = await scrape();
    const seen = ['owed_notifications', 'owed_clients', 'overdue_clients', 'catch_ups_running'].map(value);
    assert.deepEqual(seen, [2, 1, 0, 1]);
    const states = ['active', 'paused', 'failing', 'suspended'];
    const endpoints = states.map((state) => value(`endpoints{state="${state}"}`));
    assert.deepEqual(endpoints, [1, 1, 0, 0]);
    assert.equal(value('broken_clients'), 0);
    const ended = value('sweep_completed_timestamp_seconds') ?? 0;
    assert.ok(ended > 1_700_000_000 && ended <= Date.now() / 1000);
    h.skip(90_000);
    const age = (await scrape())('counts_age_seconds') ?? 0;
    assert.ok(age >= 90 && age < 150, String(age));
  });

  it('are of real attempts too, by result, for the plots', async () => {
    const { h, receiver, client } = scene;
    await h.publish({ client, asset: 'good' });
    receiver.answer = ({ body }) => (body.includes('bad') ? 500 : 200);
    await h.publish({ client, asset: 'bad' });
    await until('both are counted', async () => {
      const steps = await readAttempts(h.db, client);
      return (
        steps.some((step) => step.delivered === 1) && steps.some((step) => step.failed.http_status === 1)
      );
    });
  });

  it('are of each client with a broken key until that is in order again', async () => {
    const { h, receiver } = scene;
    const counted = async () => {
      await runSweep(h.deps);
      return (await scrape())('broken_clients');
    };
    const names = ['owed', 'owedSince', 'dueLive', 'endpoint', 'registration', 'client'] as const;
    const clients = await Promise.all(names.map(() => h.newClient(receiver.url)));
    const broken = clients.map((client, i) => h.db.client(client)[names[i] ?? 'owed']);
    for (const client of clients) {
      await setPaused(h.db, client, true);
      await h.publish({ client, asset: 'a' });
    }
    // In one step: without `owed`, catch-up would take its asset out of the other keys.
    for (const key of broken)
      await h.db.redis.multi().rename(key, `${key}:aside`).lpush(key, 'no such type').exec();
    assert.deepEqual([await counted(), await counted()], [6, 6]);
    for (const [i, key] of broken.entries()) {
      await h.db.redis.rename(`${key}:aside`, key);
      assert.equal(await counted(), 5 - i, names[i]);
    }
  });
});
