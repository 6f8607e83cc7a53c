import assert from 'node:assert/strict';
import { redeliver } from '../../src/redis/notifications/notifications.js';
import type { ArrivedEvent } from '../../src/redis/owed/claim.js';
import type { Taken } from '../../src/redis/owed/turn.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  minute,
  newDeliveryClient,
} from '../redis/deliveryClient.js';
import { newToken, type RunningApi, startApi } from './runningApi.js';

interface Listed {
  notification_id: string;
  platform_id: string;
  state: string;
  accepted_at: string;
}
interface Page {
  notifications: Listed[];
  next_cursor?: string;
}

describe('GET /notifications, page by page', () => {
  let client: DeliveryClient;
  let api: RunningApi;
  let token: string;

  beforeEach(async () => {
    client = await newDeliveryClient();
    api = await startApi({ prefix: client.db.prefix, env: { ACCOUNT_RATE_PER_SECOND: '10000' } });
    token = await newToken(api, client.account);
  });
  afterEach(() => api.close());
  after(closeDeliveryClients);

  async function ask(query: Record<string, string>): Promise<{ status: number; body: unknown }> {
    const all = new URLSearchParams({ client_token: client.clientToken, ...query });
    const headers = { authorization: `Bearer ${token}` };
    const answer = await fetch(`${api.url}/notifications?${all}`, { headers });
    return { status: answer.status, body: await answer.json() };
  }
  async function page(query: Record<string, string>): Promise<Page> {
    const { status, body } = await ask(query);
    assert.equal(status, 200, JSON.stringify(body));
    return body as Page;
  }
  /** Every page; `between` runs after each. */
  async function pages(
    query: Record<string, string>,
    between: (shown: Listed[]) => Promise<void> = async () => {},
  ): Promise<Listed[][]> {
    const all: Listed[][] = [];
    let cursor: string | undefined;
    do {
      const { notifications, next_cursor } = await page({ ...query, ...(cursor && { cursor }) });
      all.push(notifications);
      await between(notifications);
      cursor = next_cursor;
    } while (cursor !== undefined);
    return all;
  }
  const assetsOf = (listed: Listed[]) => listed.map((one) => one.platform_id);
  const names = (count: number, name = 'video') =>
    Array.from({ length: count }, (_, i) => `${name}-${String(i).padStart(4, '0')}`);

  /** All of them in one moment: they share the time of acceptance and the time since which they are owed. */
  async function owe(assets: readonly string[]): Promise<Map<string, ArrivedEvent>> {
    const acceptedAt = client.now();
    const events = assets.map((platformId) => client.event({ platformId, acceptedAt }));
    await client.claims(events, { most: 0 });
    return new Map(events.map((event) => [event.platformId, event]));
  }
  async function take(event: ArrivedEvent) {
    client.settings.maxInFlight = 1000;
    await redeliver(client.db, client.clientToken, event.notificationId);
    const [taken] = await client.take(1);
    assert.ok(taken?.notificationId === event.notificationId);
    return taken;
  }
  const deliver = async (event: ArrivedEvent) => void (await client.settle(await take(event), { ok: true }));

  it('state=waiting: shows a notification that waits throughout on exactly one page while deliveries go on', async () => {
    const owed = new Map<string, ArrivedEvent>();
    for (const i of [0, 1, 2]) {
      for (const [asset, event] of await owe([
        ...names(20, `moment-${i}`),
        `Ä-${i}`,
        `\u{1F600}-${i}`,
        `\uFF5E-${i}`,
      ]))
        owed.set(asset, event);
      client.pass(1000);
    }
    const eventOf = (asset: string) => owed.get(asset) as ArrivedEvent;
    const delivered = new Set<string>();
    const held = new Map<string, Taken>();
    const shown = await pages({ state: 'waiting', limit: '7' }, async (notifications) => {
      const assets = assetsOf(notifications);
      for (const asset of assets.slice(0, 4)) {
        const taken = held.get(asset) ?? (await take(eventOf(asset)));
        await client.settle(taken, { ok: true });
        held.delete(asset);
        delivered.add(asset);
      }
      // Attempts under way wait again and others are under way: some already shown, some still to be shown.
      const givenBack = [...held.values()].map((taken) => ({ taken, inMs: 60_000 }));
      await client.turn({ givenBack });
      held.clear();
      const ahead = [...owed.keys()].filter((asset) => !delivered.has(asset) && !assets.includes(asset));
      for (const asset of [...assets.slice(5, 6), ...ahead.slice(0, 9).filter((_, i) => i % 3 === 0)]) {
        held.set(asset, await take(eventOf(asset)));
      }
    });
    for (const notifications of shown) assert.ok(notifications.length <= 7, `${notifications.length}`);
    assert.deepEqual(shown.flatMap(assetsOf).sort(), [...owed.keys()].sort());
    assert.ok(delivered.size > 30);
  });

  it('state=waiting: never has more than limit on a page, with any number in flight', async () => {
    const owed = await owe(names(9));
    for (const asset of names(8)) await take(owed.get(asset) as ArrivedEvent);
    const shown = await pages({ state: 'waiting', limit: '3' });
    assert.deepEqual(
      shown.map((notifications) => notifications.length),
      [3, 3, 3],
    );
    assert.deepEqual(shown.flatMap(assetsOf).sort(), names(9));
  });

  it('compares since and until with the time of acceptance, also for waiting notifications', async () => {
    await client.owe('only-old');
    await client.owe('old-and-new');
    client.pass(10 * minute);
    const between = new Date(client.now()).toISOString();
    client.pass(10 * minute);
    const newer = await client.owe('old-and-new');
    await client.owe('only-new');
    await take((await owe(['in-flight'])).get('in-flight') as ArrivedEvent);
    for (const state of ['waiting', 'superseded', undefined]) {
      const given: Record<string, string> = state === undefined ? {} : { state };
      const since = await page({ ...given, since: between });
      const until = await page({ ...given, until: between });
      for (const { accepted_at } of since.notifications) assert.ok(accepted_at >= between, `${state}`);
      for (const { accepted_at } of until.notifications) assert.ok(accepted_at <= between, `${state}`);
    }
    const since = await page({ state: 'waiting', since: between });
    assert.deepEqual(assetsOf(since.notifications).sort(), ['in-flight', 'old-and-new', 'only-new']);
    assert.ok(since.notifications.some((one) => one.notification_id === newer.notificationId));
    assert.deepEqual(assetsOf((await page({ state: 'waiting', until: between })).notifications), [
      'only-old',
    ]);
  });

  it('shows every notification once, even if many share a moment and others end and arrive', async () => {
    const owed = new Map([...(await owe(names(60, 'one'))), ...(await owe(names(60, 'two')))]);
    const waiting = [...owed.values()];
    const shown = await pages({ limit: '7' }, async () => {
      client.pass(1);
      for (const event of waiting.splice(0, 3)) await deliver(event);
      await client.owe(`late-${waiting.length}`);
    });
    const all = shown.flat();
    assert.deepEqual(assetsOf(all).sort(), [...owed.keys()].sort());
    const times = all.map((one) => one.accepted_at);
    assert.deepEqual(times, [...times].sort().reverse(), 'newest first');
  });

  it('platform_id: shows all of the asset’s on the first page, with any number of others', async () => {
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) {
      ids.unshift((await client.owe('wanted')).notificationId);
      client.pass(1000);
    }
    const members = names(3000).flatMap((name) => [client.now(), name]);
    await client.db.redis.zadd(client.db.client(client.clientToken).notifications, ...members);
    const found = await page({ platform_id: 'wanted' });
    assert.deepEqual(
      found.notifications.map((one) => one.notification_id),
      ids,
    );
    assert.equal(found.next_cursor, undefined);
    const shown = await pages({ platform_id: 'wanted', limit: '2', state: 'superseded' });
    assert.deepEqual(
      shown.map((notifications) => notifications.map((one) => one.notification_id)),
      [ids.slice(1, 3), ids.slice(3, 5)],
    );
    assert.deepEqual(await page({ platform_id: 'never-seen' }), { notifications: [], has_more: false });
  });

  it('answers 400 to a cursor that this call has not answered, of another order or cut off', async () => {
    await owe(names(4));
    const newest = String((await page({ limit: '1' })).next_cursor);
    const waiting = String((await page({ limit: '1', state: 'waiting' })).next_cursor);
    await page({ cursor: newest });
    await page({ cursor: newest, platform_id: 'video-0001' });
    await page({ cursor: waiting, state: 'waiting' });
    const wrong: Record<string, string>[] = [
      { cursor: waiting },
      { cursor: newest, state: 'waiting' },
      ...[newest, waiting].flatMap((cursor) => {
        const state: Record<string, string> = cursor === waiting ? { state: 'waiting' } : {};
        const others = [cursor.slice(1), cursor.slice(0, -1), `${cursor}=`, `${cursor}A`, `${cursor} `];
        return [...others, cursor.toUpperCase()].map((given) => ({ ...state, cursor: given }));
      }),
      { cursor: '1790000000000.50' },
      { cursor: `${'9'.repeat(17)}.msg_AAAAAAAAAAAAAAAAAAAAAA` },
    ];
    for (const query of wrong) {
      const { status, body } = await ask(query);
      assert.equal(status, 400, JSON.stringify(query));
      const { msg, code } = body as { msg: string; code: string };
      assert.equal(msg, 'cursor is not a next_cursor of this call');
      assert.equal(code, 'invalid_request');
    }
  });
});
