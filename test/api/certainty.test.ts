/**
 * Situations in which a publisher asks whether it has missed something (docs/guides/recovery.md), each answered by the calls of the
 * guides. The nightly run has them at the size of a large publisher.
 */
import assert from 'node:assert/strict';
import { UpdatesClient } from '../../clients/node/src/client.js';
import { startReceiver, until } from '../receiver.js';
import { forTest, openForSuite } from '../servers.js';
import { type Json, newCustomer, repeated, startWithWorker } from '../service.js';

const assets = Number(process.env.CERTAINTY_ASSETS ?? 150);
const few = Math.min(assets, 1000);
const patientMs = 60_000 + 10 * assets;

describe('a publisher can know that it missed nothing', function () {
  this.timeout(2 * patientMs);
  const settings = { DRAIN_PER_SECOND: '2000', ACCOUNT_RATE_PER_SECOND: '10000' };
  const h = openForSuite(() => startWithWorker(settings));
  const customer = forTest(() => newCustomer(h, ['push_notifications', 'enrichments']));
  const receiver = forTest(() => startReceiver());

  const get = async (path: string) => (await customer.call('GET', path)).body;
  const replay = async (body: Json) => (await customer.call('POST', '/notifications/replay', body)).body;
  const register = () => customer.register(receiver.url);

  async function publish(count: number, name = 'vid'): Promise<void> {
    const eventId = `${Math.random()}`;
    for (let from = 0; from < count; from += 500) {
      const events = Array.from({ length: Math.min(500, count - from) }, (_, i) => ({
        client_token: customer.client_token,
        platform_id: `${name}-${from + i}`,
        segments: [eventId],
        event_id: eventId,
      }));
      const { status } = await repeated(() => customer.call('POST', '/enrichments', { events }));
      assert.equal(status, 202);
    }
  }

  interface Update {
    platform_id: string;
    notification_id?: string;
    updated_at: string;
  }
  /** Reads all pages. */
  async function feed(more: Record<string, string> = {}): Promise<{ updates: Update[]; cursor: string }> {
    const updates: Update[] = [];
    let query = more;
    for (;;) {
      const page = await get(`/updates?${new URLSearchParams({ limit: '1000', ...query })}`);
      updates.push(...(page.updates as Update[]));
      const cursor = String(page.next_cursor);
      if (page.has_more !== true) return { updates, cursor };
      query = { cursor };
    }
  }

  /** Waits until all has arrived. */
  async function arrive(): Promise<void> {
    await h.wake(customer.client_token);
    await until(
      'all has arrived',
      async () => {
        const { owed, replay: last } = await get('/push_notifications');
        return owed === 0 && (last as Json | null)?.running !== true;
      },
      patientMs,
    );
  }
  const arrived = () => new Set(receiver.received.map(({ body }) => JSON.parse(body).platform_id));
  const isoNow = () => new Date().toISOString();
  /** As 14 days or 10,000 others would. */
  async function loseRecords(): Promise<void> {
    const { notifications, notification } = h.db.client(customer.client_token);
    const ids = await h.db.redis.zrange(notifications, 0, '-1');
    for (const id of ids) await h.db.redis.unlink(notification(id));
    await h.db.redis.del(notifications);
  }

  it(`a restored database: ${assets} deliveries since the backup come again, and no other`, async () => {
    await register();
    await publish(10, 'before');
    await arrive();
    const arrivedAt = Date.now();
    await until('a later millisecond', () => Date.now() > arrivedAt);
    const since = isoNow();
    await publish(assets);
    await arrive();
    await loseRecords();
    const till = isoNow();
    receiver.received.length = 0;
    const { count, at_least } = await replay({ since, until: till });
    // Those of the minute before may come as well.
    assert.ok(at_least === true || (Number(count) >= assets && Number(count) <= assets + 10));
    assert.equal((await replay({ since, until: till })).count, 0, 'nothing twice');
    await arrive();
    const again = arrived();
    for (let i = 0; i < assets; i++) assert.ok(again.has(`vid-${i}`));
    assert.equal(receiver.received.length, again.size);
    assert.ok(again.size <= assets + 10);
    const after = (await feed({ since })).updates;
    assert.equal(after.length, assets);
  });

  it('dropped 2 hours, 20 days ago: the table compared with the updates names exactly these', async () => {
    await register();
    await publish(few);
    await arrive();
    await loseRecords();
    const { updates } = await feed();
    const stored = updates.slice(0, -7).map((one) => [one.platform_id, one.notification_id ?? ''] as const);
    const { client_id: clientId, client_secret: clientSecret, client_token: clientToken } = customer;
    const client = new UpdatesClient({ url: h.url, clientId, clientSecret });
    const found = await client.reconcile(stored, { clientToken, untilMs: Date.now() });
    assert.deepEqual([found.missing.length, found.compared], [7, few]);
  });

  it('two requests of one asset are ordered by their headers, as the updates are', async () => {
    await register();
    for (let i = 0; i < 20; i++) await publish(1);
    await arrive();
    const order = receiver.received.map(({ headers }) => Number(headers['webhook-updated-at']));
    assert.deepEqual(
      order,
      [...new Set(order)].sort((a, b) => a - b),
    );
    const [newest] = (await feed()).updates;
    assert.equal(Math.floor(order.at(-1) ?? 0), Date.parse(newest?.updated_at ?? ''));
    for (const { headers } of receiver.received) assert.equal(headers['webhook-attempt'], '1');
  });

  it(`readers ${assets} updates behind miss none, three at once`, async () => {
    await publish(few);
    const { cursor } = await feed();
    await publish(assets);
    const three = await Promise.all([1, 2, 3].map(() => feed({ cursor })));
    for (const { updates } of three)
      assert.equal(new Set(updates.map((one) => one.platform_id)).size, assets);
  });
});
