/** The counts of the sweep, and the cost of a scrape of the metrics. */
import assert from 'node:assert/strict';
import { createMetrics, watchCounts } from '../../src/metrics.js';
import { readCounts } from '../../src/redis/records/counts.js';
import { getEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, startHarness } from '../service.js';

describe('Counts of the sweep', () => {
  let h: Harness;
  let receiver: Receiver;
  before(async () => {
    [h, receiver] = await Promise.all([startHarness(), startReceiver()]);
    await h.startWorker();
  });
  after(async () => {
    await receiver.close();
    await h.close();
  });

  /** The metrics as they are scraped. */
  async function scrape(): Promise<(name: string) => number | undefined> {
    const metrics = createMetrics();
    watchCounts(metrics, () => readCounts(h.db));
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
    const paused = await h.newClient(receiver.url);
    await setPaused(h.db, paused, true);
    await h.newClient(receiver.url);
    await h.newClient();
    for (const asset of ['a', 'b']) await h.publish({ client: paused, asset });
    await until(
      'its catch-up sleeps',
      async () => (await getEndpoint(h.db, paused)).waitingReason === 'paused',
    );
    await h.sweep();
    const value = await scrape();
    const seen = ['owed_notifications', 'owed_clients', 'overdue_clients', 'catch_ups_running'].map(value);
    assert.deepEqual(seen, [2, 1, 0, 1]);
    const states = ['active', 'paused', 'failing', 'suspended'];
    assert.deepEqual(
      states.map((state) => value(`endpoints{state="${state}"}`)),
      [1, 1, 0, 0],
    );
    assert.equal(value('broken_clients'), 0);
    const ended = value('sweep_completed_timestamp_seconds') ?? 0;
    assert.ok(ended > 1_700_000_000 && ended <= Date.now() / 1000);
    h.skip(90_000);
    const age = (await scrape())('counts_age_seconds') ?? 0;
    assert.ok(age >= 90 && age < 150, String(age));
  });

  describe('a client with broken keys is counted until they are in order again', () => {
    const counted = async () => {
      await h.sweep();
      return (await scrape())('broken_clients');
    };

    const keys = [
      ['owed', 'owed'],
      ['owedSince', 'owed-since'],
      ['dueLive', 'due:live'],
      ['endpoint', 'endpoint'],
      ['registration', 'registration'],
      ['client', 'client'],
    ] as const;
    for (const [key, name] of keys) {
      it(`WRONGTYPE: ${name}`, async () => {
        const client = await h.newClient(receiver.url);
        await setPaused(h.db, client, true);
        await h.publish({ client, asset: 'a' });
        const broken = h.db.client(client)[key];
        const aside = `${broken}:aside`;
        await h.db.redis.rename(broken, aside);
        await h.db.redis.lpush(broken, 'no such type');
        assert.equal(await counted(), 1);
        assert.equal(await counted(), 1);
        await h.db.redis.rename(aside, broken);
        assert.equal(await counted(), 0);
      });
    }
  });
});
