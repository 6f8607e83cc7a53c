import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createUpdateWaits, feedBeginning } from '../../src/redis/notifications/updates.js';
import { claimOnly } from '../../src/redis/owed/claim.js';
import { revokeAccessToken } from '../../src/redis/records/accessTokens.js';
import { until } from '../receiver.js';
import { afterTest, forTest, opened } from '../servers.js';
import { arrivedEvent, newCustomer, repeated, startHarness, useShared } from '../service.js';
import { callRaw, statusesIn } from './rawCaller.js';

interface Page {
  updates: { platform_id: string; notified: boolean; notification_id?: string; updated_at: string }[];
  has_more: boolean;
  next_cursor: string;
  delivered_until: string | null;
  complete_since: string | null;
  code?: string;
}

describe('GET /updates', () => {
  const h = useShared();
  const customer = forTest(() => newCustomer(h, ['push_notifications', 'enrichments']));

  async function get(query: Record<string, string> = {}) {
    const { status, body } = await customer.call('GET', `/updates?${new URLSearchParams(query)}`);
    return { status, body: body as unknown as Page };
  }

  const assetsOf = ({ updates }: Page) => updates.map(({ platform_id }) => platform_id);

  async function publish(assets: readonly string[]) {
    const { client_token } = customer;
    const event_id = `${Math.random()}`;
    const eventOf = (platform_id: string) => ({ client_token, platform_id, event_id, segments: [event_id] });
    const events = assets.map(eventOf);
    const { status, body } = await repeated(() => customer.call('POST', '/enrichments', { events }));
    assert.equal(status, 202);
    return body.results as Record<string, string>[];
  }

  it('lists events of a client without a URL page by page, then an empty page with the same place, and names the notification once there is a URL', async () => {
    const empty = (await get()).body;
    assert.deepEqual(empty.updates, []);
    assert.equal(empty.next_cursor, `u.0..${customer.client_token}`);
    assert.deepEqual([empty.delivered_until, empty.complete_since], [null, null]);
    const results = await publish(['a', 'b', 'c']);
    for (const one of results) assert.deepEqual([one.notification, one.reason], ['none', 'not_registered']);
    const first = await get({ cursor: empty.next_cursor, limit: '2' });
    assert.deepEqual(assetsOf(first.body), ['a', 'b']);
    for (const { notified, notification_id, updated_at } of first.body.updates) {
      assert.deepEqual([notified, notification_id], [false, undefined]);
      assert.ok(Math.abs(Date.parse(updated_at) - Date.now()) < 30_000);
    }
    const second = await get({ cursor: first.body.next_cursor });
    assert.deepEqual(assetsOf(second.body), ['c']);
    assert.deepEqual([first.body.has_more, second.body.has_more], [true, false]);
    const last = await get({ cursor: second.body.next_cursor });
    assert.deepEqual(last.body.updates, []);
    assert.equal(last.body.next_cursor, second.body.next_cursor);
    await customer.register('http://127.0.0.1:9/none');
    const [published] = await publish(['a']);
    const { updates } = (await get({ cursor: last.body.next_cursor })).body;
    const [{ updated_at: since = '' } = {}] = updates;
    assert.deepEqual(
      updates.map((one) => [one.notified, one.notification_id]),
      [[true, published?.notification_id]],
    );
    assert.deepEqual(assetsOf((await get()).body), ['b', 'c', 'a']);
    assert.deepEqual(assetsOf((await get({ since })).body), ['a']);
    const later = (await get({ since: new Date(Date.parse(since) + 1000).toISOString() })).body;
    assert.deepEqual(later.updates, []);
    assert.equal((await get({ cursor: later.next_cursor })).status, 200);
    assert.equal((await get({ since, cursor: later.next_cursor })).status, 400);
  });

  it('answers 400 for an invalid cursor, and 410 cursor_expired for a place that is no longer kept', async () => {
    const own = customer.client_token;
    for (const cursor of ['', 'x', 'u.', 'u.1', `u.01..${own}`, `u.1.a.${own}`, 'u.1..', 'u.0..ANOTHER']) {
      const { status, body } = await get({ cursor });
      assert.deepEqual([status, body.code], [400, 'invalid_request'], cursor);
    }
    await publish(['a']);
    for (const cursor of [`u.1.Yg.${own}`, `u.8999999999999999.YQ.${own}`]) {
      const { status, body } = await get({ cursor });
      assert.deepEqual([status, body.code], [410, 'cursor_expired'], cursor);
    }
  });

  it('says until when all has arrived, what waits since when, and what ended otherwise', async () => {
    await customer.register('http://127.0.0.1:9/none');
    await publish(['a']);
    const [{ updated_at = '' } = {}] = (await get()).body.updates;
    const reach = async () => {
      const { delivered_until, owed_since, failed, cancelled } = await customer.read('/push_notifications');
      const feed = (await get()).body as unknown as Record<string, unknown>;
      assert.deepEqual([feed.owed_since, feed.failed, feed.cancelled], [owed_since, failed, cancelled]);
      return { delivered_until, owed_since, failed, cancelled };
    };
    const before = new Date(Date.parse(updated_at) - 1000).toISOString();
    const owed = { delivered_until: before, owed_since: updated_at, failed: 0, cancelled: 0 };
    assert.deepEqual(await reach(), owed);
    await customer.call('DELETE', '/assets?platform_id=a');
    const { delivered_until: arrived, ...rest } = await reach();
    assert.ok(Date.parse(String(arrived)) > Date.parse(updated_at));
    assert.deepEqual(rest, { owed_since: null, failed: 0, cancelled: 1 });
    assert.deepEqual((await get()).body.updates, [], 'a forgotten asset has no update');
  });

  it('answers pages of up to 1,000, and 400 for a wrong limit or wait', async () => {
    for (let i = 0; i < 3; i++) await publish(Array.from({ length: 400 }, (_, n) => `a-${i}-${n}`));
    const { updates, has_more: hasMore } = (await get({ limit: '1000' })).body;
    assert.deepEqual([updates.length, hasMore], [1000, true]);
    for (const limit of ['0', '1001', '1e2', '10000'])
      assert.equal((await get({ limit })).status, 400, limit);
    for (const wait of ['21', '-1', '0.5', 'x', ' 1']) assert.equal((await get({ wait })).status, 400, wait);
  });

  describe('wait', () => {
    const awaits = async () => {
      const { endpoint } = h.db.client(customer.client_token);
      return Number(await h.db.redis.hget(endpoint, 'updates_awaited_until')) > Date.now();
    };

    it('answers as soon as another process claims an event, and costs Redis nothing meanwhile', async () => {
      await publish(['a']);
      const cursor = (await get()).body.next_cursor;
      const calls = Array.from({ length: 5 }, () => get({ cursor, wait: '20' }));
      await until('all wait', async () => (await awaits()) && waiting() === 5);
      const { redis } = h.db;
      const sendCommand = redis.sendCommand.bind(redis);
      const sent: string[] = [];
      redis.sendCommand = (command, ...rest) => {
        if (String(command.args).includes(customer.client_token)) sent.push(command.name);
        return sendCommand(command, ...rest);
      };
      afterTest(() => Object.assign(redis, { sendCommand }));
      await new Promise((resolve) => setTimeout(resolve, 1000));
      assert.deepEqual(sent, []);
      await claimOnly(h.db, customer.client_token, [arrivedEvent(customer.client_token, 'b')]);
      for (const { body } of await Promise.all(calls)) assert.deepEqual(assetsOf(body), ['b']);
      assert.equal(waiting(), 0);
      assert.equal((await get({ cursor, wait: '20' })).body.updates.length, 1, 'one is there: no wait');
    });

    it('answers an empty page after its time, and forgets a caller who hangs up', async () => {
      const begun = performance.now();
      const { body } = await get({ wait: '1' });
      assert.deepEqual([body.updates, body.has_more], [[], false]);
      assert.ok(performance.now() - begun >= 990);
      const { client_token, token } = customer;
      const head = `GET /updates?client_token=${client_token}&wait=20 HTTP/1.1\r\nhost: x\r\n`;
      const call = () => callRaw(h.url, `${head}authorization: Bearer ${token}\r\n\r\n`);
      const impatient = call();
      await until('it waits', () => waiting() === 1);
      impatient.socket.destroy();
      await until('nobody waits', () => waiting() === 0);
      const closing = call();
      await until('it waits', () => waiting() === 1);
      closing.socket.end();
      assert.deepEqual(statusesIn(await closing.closed), [200]);
    });

    it('shows no update to a token that has ended meanwhile', async () => {
      const call = get({ wait: '20' });
      await until('it waits', async () => (await awaits()) && waiting() === 1);
      await revokeAccessToken(h.db, customer.account_id, customer.token);
      await claimOnly(h.db, customer.client_token, [arrivedEvent(customer.client_token, 'b')]);
      assert.deepEqual([(await call).status, (await call).body.code], [401, 'invalid_token']);
    });

    it('ends the wait of all when the process ends, with one listener for any number of them', async () => {
      const own = await startHarness();
      const { closing } = own.apiDeps;
      const listening = () => getEventListeners(closing as AbortSignal, 'abort').length;
      const before = listening();
      const others = [await newCustomer(own), await newCustomer(own)];
      const calls = Array.from({ length: 20 }, (_, i) => others[i % 2]?.call('GET', '/updates?wait=20'));
      await until('all wait', () => own.apiDeps.updateWaits.waiting() === 20);
      // Redis has answered what each of them asked before.
      for (const { client_token } of others) await own.endpoint(client_token);
      assert.equal(listening(), before);
      const closed = own.close();
      await new Promise<void>((resolve) => process.nextTick(resolve));
      assert.equal(own.apiDeps.updateWaits.waiting(), 10, 'one client in a turn');
      await nextTurn();
      assert.equal(own.apiDeps.updateWaits.waiting(), 0);
      for (const told of await Promise.all(calls))
        assert.deepEqual([told?.status, told?.body.updates], [200, []]);
      await closed;
    });

    it('asks once whether the subscription still answers, for all who begin to wait at the same time', async () => {
      const { redis } = h.db;
      const duplicate = redis.duplicate.bind(redis);
      let asked = 0;
      redis.duplicate = (options) => {
        const own = duplicate(options);
        const send = own.sendCommand.bind(own);
        own.sendCommand = (command, ...rest) => {
          if (command.name === 'psubscribe') asked++;
          return send(command, ...rest);
        };
        return own;
      };
      const waits = createUpdateWaits(h.db);
      const wait = () => waits.next(customer.client_token, feedBeginning, 1, new AbortController().signal);
      assert.equal(await wait(), false);
      Object.assign(redis, { duplicate });
      asked = 0;
      await Promise.all(Array.from({ length: 100 }, wait));
      assert.equal(asked, 1);
    });

    it('has callers look again when the subscription was cut, and tells them of the next update', async () => {
      const own = opened(await startHarness({ KEY_PREFIX: h.prefix }, 'api'));
      const subscriptions = async (): Promise<string[]> =>
        String(await h.db.redis.call('CLIENT', 'LIST', 'TYPE', 'PUBSUB')).match(/(?<=^id=)\d+/gm) ?? [];
      const ofOthers = await subscriptions();
      const wait = () => customer.call('GET', '/updates?wait=20', undefined, own);
      const updates = ({ body }: Awaited<ReturnType<typeof wait>>) => (body as unknown as Page).updates;
      const call = wait();
      await until('it waits', awaits);
      for (const id of await subscriptions())
        if (!ofOthers.includes(id)) await h.db.redis.call('CLIENT', 'KILL', 'ID', id);
      assert.deepEqual(updates(await call), []);
      const again = wait();
      await until('it waits again', () => own.apiDeps.updateWaits.waiting() === 1);
      await publish(['a']);
      assert.equal(updates(await again).length, 1);
    });
  });

  const waiting = () => h.apiDeps.updateWaits.waiting();
});
