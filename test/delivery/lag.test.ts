/** The metrics of deliveries: how late they are, and how notifications ended. */
import assert from 'node:assert/strict';
import { recordChange } from '../../src/redis/records/audit.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from './harness.js';

describe('The lag of deliveries', () => {
  const told: { what: string; priority: string; milliseconds: number }[] = [];
  const ended: string[] = [];
  let h: Harness;
  let receiver: Receiver;
  before(async () => {
    const metrics = {
      firstAttempted: (priority: string, milliseconds: number) =>
        void told.push({ what: 'first attempt', priority, milliseconds }),
      delivered: (priority: string, milliseconds: number) =>
        void told.push({ what: 'delivered', priority, milliseconds }),
      ended: (state: string) => void ended.push(state),
    };
    [h, receiver] = await Promise.all([
      startHarness({ RETRY_SCHEDULE_SECONDS: '1' }, 'all', { metrics }),
      startReceiver(),
    ]);
    await h.startWorker();
  });
  beforeEach(() => {
    told.length = 0;
    ended.length = 0;
    receiver.answer = () => 200;
  });
  after(async () => {
    await receiver.close();
    await h.close();
  });

  const whats = () => told.map(({ what, priority }) => `${what} ${priority}`);
  const delivered = () => until('it is delivered', () => told.find(({ what }) => what === 'delivered'));

  it('is recorded once for the first attempt and once for the 2xx, with a retry between them', async () => {
    const client = await h.newClient(receiver.url);
    let answers = 0;
    receiver.answer = () => (++answers === 1 ? 503 : 200);
    await h.publish({ client, asset: 'a' });
    const { milliseconds } = await delivered();
    assert.deepEqual(whats(), ['first attempt live', 'delivered live']);
    assert.ok(milliseconds >= 1000, `with the wait before the retry: ${milliseconds}`);
    assert.ok((told[0]?.milliseconds ?? 0) < milliseconds);
  });

  it('begins with the acceptance also for deliveries of catch-up', async () => {
    const client = await h.newClient(receiver.url);
    await setPaused(h.db, client, true);
    await h.publish({ client, asset: 'a', priority: 'backfill' });
    h.skip(600_000);
    await setPaused(h.db, client, false);
    await h.wake(client);
    const { milliseconds } = await delivered();
    assert.deepEqual(whats(), ['first attempt backfill', 'delivered backfill']);
    assert.ok(milliseconds >= 600_000, String(milliseconds));
  });

  it('counts a notification that a newer one replaces once, as superseded', async () => {
    const client = await h.newClient(receiver.url);
    await setPaused(h.db, client, true);
    for (const eventId of ['one', 'two', 'two']) {
      await h.publish({ client, asset: 'a', eventId, segments: [eventId] });
    }
    assert.deepEqual(ended, ['superseded']);
  });

  it('counts a notification that an operator cancels at the next sweep', async () => {
    const entry = { who: 'Ada', what: 'notification cancel', target: 'msg_1', before: null, after: null };
    await recordChange(h.db, entry);
    await h.sweep();
    assert.deepEqual(ended, ['cancelled']);
  });
});
