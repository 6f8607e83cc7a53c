import assert from 'node:assert/strict';
import { resend } from '../../src/acts/sendAgain.js';
import { operatorOf } from '../../src/desk/calls.js';
import { noticesClient } from '../../src/ids.js';
import { forgetAsset } from '../../src/redis/notifications/decisions.js';
import { findNotification } from '../../src/redis/notifications/notifications.js';
import { recoverFailed } from '../../src/redis/notifications/redeliver.js';
import { getClient } from '../../src/redis/records/clients.js';
import { readCounts } from '../../src/redis/records/counts.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { createSigningSecret } from '../../src/redis/records/secrets.js';
import { runSweep } from '../../src/upkeep/sweep.js';
import { box, toldOf } from '../notices/scene.js';
import { startReceiver, until } from '../receiver.js';
import { openForSuite } from '../servers.js';
import { type Customer, type Json, newCustomer, startWithWorker } from '../service.js';

const days = 86_400_000;

describe('failed assets', () => {
  const h = openForSuite(() => startWithWorker({ ACCOUNT_RATE_PER_SECOND: '10000' }));
  let customer: Customer;

  const read = async (path: string) => (await customer.call('GET', path)).body;
  const since = '2026-01-01T00:00:00Z';
  const recover = async (given: Json = {}) => {
    const { complete_since, until, ...rest } = (
      await customer.call('POST', '/notifications/recover', { since, ...given })
    ).body;
    return rest as Json;
  };
  const pause = (isPaused: boolean) => setPaused(h.db, customer.client_token, isPaused);

  /** Registers a new customer's URL, and has so many assets fail. */
  async function fail(url: string, count: number): Promise<void> {
    customer = await newCustomer(h);
    await customer.register(url);
    await pause(true);
    const client = customer.client_token;
    await Promise.all(
      Array.from({ length: count }, (_, i) => h.publish({ client, asset: `lost-${i}`, eventId: `an-${i}` })),
    );
    h.skip(31 * days);
    await h.wake(client);
    await until('all failed', async () => (await read('/push_notifications')).failed === count, 60_000);
  }

  it('are all listed and recovered, however many came after them and even without their records', async () => {
    const receiver = await startReceiver();
    await fail(receiver.url, 250);
    assert.equal((await read('/push_notifications')).owed, 0);
    const keys = h.db.client(customer.client_token);
    // As 14 days or 10,000 newer ones would.
    const listed = await h.db.redis.zrange(keys.notifications, 0, '-1');
    await h.db.redis.del(keys.notifications, ...listed.slice(0, 200).map((id) => keys.notification(id)));
    const found: Json[] = [];
    for (let cursor = ''; ; ) {
      const page = await read(`/notifications?state=failed&limit=200${cursor && `&cursor=${cursor}`}`);
      found.push(...(page.notifications as Json[]));
      if (page.has_more === false) break;
      cursor = String(page.next_cursor);
    }
    assert.equal(new Set(found.map(({ platform_id }) => platform_id)).size, 250);
    for (const one of found) assert.deepEqual([one.state, one.reason], ['failed', 'expired']);
    const [one] = (await read('/notifications?state=failed&platform_id=lost-7')).notifications as Json[];
    assert.deepEqual([one?.event_id, one?.platform_id], ['an-7', 'lost-7']);
    const { last_event: event, last_notification: notification } = await read('/assets/lost-7');
    assert.equal((event as Json).event_id, 'an-7');
    assert.deepEqual([(notification as Json).state, (notification as Json).reason], ['failed', 'expired']);
    await pause(false);
    const at = new Date(Date.now() + 31 * days).toISOString();
    for (const outside of [{ until: '2026-01-02T00:00:00Z' }, { since: at }])
      assert.deepEqual(await recover(outside), { count: 0, more: 0 });
    await h.publish({ client: customer.client_token, asset: 'lost-8' });
    assert.equal((await read('/push_notifications')).failed, 249, 'a newer event takes its place');
    const { count, more } = await recoverFailed(h.db, customer.client_token, { since: 0, dryRun: true }, 200);
    assert.deepEqual([count, more], [200, 49], 'a dry run counts no more than one call makes owed');
    for (const dry_run of [true, false])
      assert.deepEqual(await recover({ dry_run }), { count: 249, more: 0 });
    await until('each arrived', () => receiver.received.length === 250, 60_000);
    assert.equal((await read('/push_notifications')).failed, 0);
    assert.deepEqual(receiver.idsOf('lost-7'), [one?.notification_id], 'its id is the same');
  });

  /** As 14 days do. @returns the ids of the records */
  async function loseRecords(): Promise<string[]> {
    const keys = h.db.client(customer.client_token);
    const ids = await h.db.redis.zrange(keys.notifications, 0, '-1');
    await h.db.redis.del(...ids.map((id) => keys.notification(id)));
    return ids;
  }

  it('can be read, found and sent again, each by its id, without their records', async () => {
    const receiver = await startReceiver();
    await fail(receiver.url, 3);
    const ids = await loseRecords();
    const all = (await read('/notifications')).notifications as Json[];
    assert.deepEqual(
      all.map(({ state }) => state),
      ['failed', 'failed', 'failed'],
    );
    assert.equal((await read('/events/an-1')).platform_id, 'lost-1');
    const shown = new Map<string, string>();
    for (const id of ids) {
      const { platform_id, state, reason, attempts, event_id } = await read(`/notifications/${id}`);
      assert.deepEqual([state, reason, attempts], ['failed', 'expired', []]);
      assert.equal(String(event_id).slice(3), String(platform_id).slice(5));
      shown.set(String(platform_id), id);
      assert.equal((await findNotification(h.db, id))?.platformId, platform_id);
    }
    await pause(false);
    const { 'lost-0': first = '', ...others } = Object.fromEntries(shown);
    const { status, body } = await customer.call('POST', `/notifications/${first}/redeliver`);
    assert.deepEqual([status, body.notification_id], [202, first]);
    const client = await getClient(h.db, customer.client_token);
    assert.ok(client);
    const operator = operatorOf(h.apiDeps, { role: 'support', who: 'Ada (test)', warnings: [] }, 'a test');
    await until('it arrived', () => receiver.received.length === 1);
    for (const dry_run of [true, false])
      assert.equal((await resend(operator, { client, state: 'failed', dry_run })).count, 2);
    await h.wake(customer.client_token);
    await until('all arrived', () => receiver.received.length === 3, 60_000);
    for (const [asset, id] of [['lost-0', first], ...Object.entries(others)] as [string, string][])
      assert.deepEqual(receiver.idsOf(asset), [id]);
  });

  it('make one notice with their count, however many steps they end in, and are counted for the alert', async () => {
    const [receiver, told] = [await startReceiver(), await startReceiver()];
    await fail(receiver.url, 250);
    await setNoticesUrl(h.db, box, customer.account_id, told.url);
    const secret = await createSigningSecret(h.db, box, noticesClient(customer.account_id));
    for (let i = 0; i < 3; i++) {
      // Each minute a sweep looks at all clients.
      h.skip(61_000);
      await runSweep(h.deps);
    }
    const [notice] = await toldOf(told, customer.client_token, 'notifications.failed', secret);
    const { at, since, ...said } = notice as unknown as Record<string, string>;
    assert.deepEqual(said, {
      event: 'notifications.failed',
      account_id: customer.account_id,
      client_token: customer.client_token,
      reason: 'expired',
      count: 250,
      owed: 0,
    });
    assert.ok(Date.parse(since ?? '') <= Date.parse(at ?? ''));
    assert.equal(told.received.length, 1);
    const { failedAssets, keptFailed } = (await readCounts(h.db)).endpoints ?? {};
    assert.deepEqual([failedAssets, keptFailed], [250, 250]);
    await pause(false);
    assert.deepEqual(await recover(), { count: 250, more: 0 });
    h.skip(61_000);
    await runSweep(h.deps);
    assert.equal((await readCounts(h.db)).endpoints?.failedAssets, 0);
  });

  it('are dismissed with a reason: counted first, cancelled then, and given up no more', async () => {
    const receiver = await startReceiver();
    await fail(receiver.url, 3);
    const dismiss = async (given: Json) => {
      const body = { since, reason: 'sent by hand', ...given };
      const { count, more } = (await customer.call('POST', '/notifications/dismiss', body)).body;
      return { count, more };
    };
    assert.equal((await customer.call('POST', '/notifications/dismiss', { since })).status, 400);
    const before = await h.ended('cancelled');
    for (const dry_run of [true, false]) assert.deepEqual(await dismiss({ dry_run }), { count: 3, more: 0 });
    assert.deepEqual(await dismiss({}), { count: 0, more: 0 });
    assert.equal(await h.ended('cancelled'), before + 3);
    assert.equal((await read('/push_notifications')).failed, 0);
    const listed = (await read('/notifications?state=cancelled')).notifications as Json[];
    assert.deepEqual(new Set(listed.map(({ reason }) => reason)), new Set(['dismissed']));
    assert.equal(listed.length, 3);
    await pause(false);
    await h.publish({ client: customer.client_token, asset: 'lost-1', eventId: 'an-1' });
    const [{ notification_id: id }] = listed as [Json];
    const again = await customer.call('POST', `/notifications/${id}/redeliver`);
    assert.equal(again.status, 202, 'one of them can still be sent again');
  });

  it('are counted as cancelled where they are dismissed or forgotten without their records', async () => {
    const receiver = await startReceiver();
    await fail(receiver.url, 3);
    await loseRecords();
    await forgetAsset(h.db, customer.client_token, 'lost-1');
    assert.equal((await read('/push_notifications')).cancelled, 1);
    await customer.call('POST', '/notifications/dismiss', { since, reason: 'sent by hand' });
    assert.equal((await read('/push_notifications')).cancelled, 3);
  });

  it('are forgotten after FAILED_RETENTION_DAYS', async () => {
    const receiver = await startReceiver();
    await fail(receiver.url, 3);
    h.skip(91 * days);
    assert.deepEqual((await read('/notifications?state=failed')).notifications, []);
    assert.deepEqual(await recover(), { count: 0, more: 0 });
    assert.equal((await read('/push_notifications')).failed, 0);
    await runSweep(h.deps);
    assert.equal(await h.db.redis.exists(h.db.client(customer.client_token).failed), 0);
  });
});
