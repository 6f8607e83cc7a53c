import assert from 'node:assert/strict';
import { cancelNotification } from '../../src/redis/notifications/redeliver.js';
import { listCalls } from '../../src/redis/records/audit.js';
import { closeGate, until, within } from '../receiver.js';
import { afterTest } from '../servers.js';
import type { Json } from '../service.js';
import { publisherScene } from './publisherScene.js';

describe('notifications: listed, shown, sent again', () => {
  const { h, receiver, customer, call, read, register, publish, delivered, pause } = publisherScene();

  it('GET /notifications lists newest first, page by page, with filters; one by its id, with its attempts and the URL’s scheme and host', async () => {
    await customer.register(`${receiver.url}?secret=1`);
    const [id = ''] = [await delivered('vid-1'), await delivered('vid-2'), await delivered('vid-3')];
    const assets = async (query: string) => {
      const { notifications, next_cursor } = await read(`/notifications?${query}`);
      return [(notifications as Json[]).map((n) => n.platform_id).join(), next_cursor];
    };
    const [first, cursor] = await assets('limit=2');
    assert.equal(first, 'vid-3,vid-2');
    for (const [query, expected] of [
      [`limit=2&cursor=${cursor}`, 'vid-1'],
      ['platform_id=vid-2', 'vid-2'],
      ['state=failed', ''],
      ['since=2020-01-01', 'vid-3,vid-2,vid-1'],
      ['until=2020-01-01T00:00:00Z', ''],
    ] as const) {
      assert.equal((await assets(query))[0], expected, query);
    }
    const { attempts } = await read(`/notifications/${id}`);
    const [{ url, status } = assert.fail()] = attempts as Json[];
    assert.deepEqual([url, status], [new URL(receiver.url).origin, 200]);
  });

  it('GET /notifications answers 400 naming the parameter', async () => {
    for (const wrong of [
      'state=odd',
      'since=yesterday',
      'since=2026-01-02&until=2026-01-01',
      'limit=0',
      'limit=1000',
      'limit=1e2',
      'cursor=x',
      'cursor=a.1.msg_3q2-7wABAgMEBQYHCAkKCw.ANOTHER',
      'state=',
      'platform_id=vid-9%0A',
      `platform_id=${'x'.repeat(257)}`,
    ]) {
      const { status, body } = await call('GET', `/notifications?${wrong}`);
      assert.equal(status, 400, wrong);
      assert.match(String(body.msg), new RegExp(wrong.split('=')[0] ?? ''));
    }
  });

  it('GET /notifications/{id} says that one waits for a place, where every client has the default number', async () => {
    await register();
    const gate = closeGate(receiver);
    await h.publishAll(customer.client_token, 'held', 16);
    await until('every place is taken', () => receiver.received.length === 16);
    const id = await publish('waits');
    const { waiting_reason: reason, next_attempt_at: at } = await read(`/notifications/${id}`);
    gate.open();
    assert.deepEqual([reason, at ?? undefined], ['full', undefined]);
  });

  it('POST /notifications/{id}/redeliver answers what is due: it, or the newer one of its asset, and why that waits; it refuses one that expires', async () => {
    await register();
    const redeliver = (id: string) => call('POST', `/notifications/${id}/redeliver`);
    const id = await delivered('vid-1');
    const again = await redeliver(id);
    assert.deepEqual([again.status, again.body], [202, { notification_id: id }]);
    await h.attempted(customer.client_token, id, 2);
    await pause(true);
    const held = { waiting_reason: 'paused' };
    assert.deepEqual((await redeliver(id)).body, { notification_id: id, ...held });
    const newer = await publish('vid-1');
    assert.deepEqual((await redeliver(id)).body, { notification_id: newer, ...held });
    const { durably } = h.db;
    const record = h.db.client(customer.client_token).notification(newer);
    h.db.durably = (write) => durably((own) => own.redis.del(record).then(() => write(own)));
    const expired = await redeliver(newer);
    h.db.durably = durably;
    assert.deepEqual([expired.status, expired.body.code], [404, 'unknown_notification'], 'in that moment');
  });

  const since = '2026-01-01T00:00:00Z';

  it('says since when a list is complete: 14 days, or the oldest of 10,000 that are listed', async () => {
    await register();
    await pause(true);
    const first = await publish('first');
    const keys = h.db.client(customer.client_token);
    const at = Date.now();
    // Those that are owed are listed beside the newest 10,000.
    const newer = Array.from({ length: 10_001 }, (_, i) => [at + i, `msg_${String(i).padStart(22, 'A')}`]);
    await h.db.redis.zadd(keys.notifications, ...newer.flat());
    await publish('second');
    await cancelNotification(h.db, customer.client_token, first);
    const { notifications, complete_since: from } = await read('/notifications?state=cancelled');
    assert.deepEqual(notifications, []);
    assert.ok(Date.parse(String(from)) >= at);
    assert.equal((await read('/notifications?state=waiting')).complete_since, null);
    isAgo((await read('/notifications?state=failed')).complete_since, 90);
    await h.db.redis.del(keys.notifications);
    isAgo((await read('/notifications')).complete_since, 14);
    isAgo((await call('POST', '/notifications/recover', { since, dry_run: true })).body.complete_since, 90);
  });

  function isAgo(time: unknown, days: number) {
    const ms = Date.now() - Date.parse(String(time)) - days * 86_400_000;
    assert.ok(ms >= -1000 && ms < 60_000, `${time}`);
  }

  describe('POST /notifications/replay', () => {
    const replay = async (body: Json) => {
      const { complete_since, at_least, ...rest } = (await call('POST', '/notifications/replay', body)).body;
      return rest as Json;
    };

    it('answers the count and the end of the time, owes nothing twice, and refuses a time that has not come', async () => {
      await register();
      const id = await delivered('vid-1');
      const till = new Date(Date.now() + 1).toISOString();
      await until('a later millisecond', () => Date.now() > Date.parse(till) + 1);
      await delivered('vid-2');
      assert.deepEqual(await replay({ since, until: till, dry_run: true }), { count: 1, until: till });
      await pause(true);
      const first = await replay({ since });
      assert.equal(first.count, 2);
      assert.ok(Date.parse(String(first.until)) <= Date.now());
      const waiting = await read(`/notifications/${id}`);
      assert.deepEqual([waiting.state, waiting.priority], ['waiting', 'backfill']);
      await pause(false);
      await h.wake(customer.client_token);
      await h.noneOwed(customer.client_token);
      for (const dry_run of [true, false])
        assert.deepEqual(await replay({ since, dry_run }), { count: 0, until: first.until });
      const again = { count: 0, until: till };
      assert.deepEqual(await replay({ since, until: till }), again, 'delivered after that time');
      const now = new Date().toISOString();
      assert.deepEqual(await replay({ since, until: now, dry_run: true }), { count: 2, until: now });
      const wrong = [
        { since, until: '2099-01-01T00:00:00Z', dry_run: true },
        { since: '2099-01-01T00:00:00Z' },
        { since: now, until: since },
      ];
      for (const body of wrong) assert.equal((await replay(body)).code, 'invalid_request');
      assert.match(String((await replay(wrong[0] as Json)).msg), /not be later than now/);
    });

    it('reaches what has no record any more, refuses another time meanwhile, and can be stopped', async () => {
      await register();
      const ids = [await delivered('vid-1'), await delivered('vid-2')];
      const keys = h.db.client(customer.client_token);
      await h.db.redis.del(...ids.map((id) => keys.notification(id)), keys.notifications);
      const till = new Date(Date.now()).toISOString();
      assert.equal((await replay({ since, until: till, dry_run: true })).count, 2);
      await pause(true);
      await replay({ since, until: till });
      const owed = await read('/notifications?state=waiting');
      assert.deepEqual(
        (owed.notifications as Json[]).map((one) => one.event_id),
        [undefined, undefined],
      );
      const { replay: done } = await read('/push_notifications');
      const { running, owed_again } = done as Json;
      assert.deepEqual([running, owed_again], [false, 2]);
      // As many wait as a replay keeps waiting: the next one does not move.
      const { drainPerSecond } = h.db.settings;
      Object.assign(h.db.settings, { drainPerSecond: 1 });
      afterTest(() => Object.assign(h.db.settings, { drainPerSecond }));
      await h.publishAll(customer.client_token, 'more', 5);
      const next = { since: till };
      await replay(next);
      const made = async () =>
        (await listCalls(h.db, [customer.account_id])).filter(({ what }) => what === 'notification replay')
          .length;
      const before = await made();
      assert.match(String((await replay({ since })).msg), /a replay from .* runs/);
      assert.match(String((await replay({ since, stop: true })).msg), /but one since .*: give that time/);
      assert.equal((await replay({ ...next, stop: true })).count, 0);
      assert.equal((await replay({ ...next, stop: true })).code, 'invalid_request');
      assert.equal(await made(), before + 1, 'of the replay that was stopped alone');
    });
  });

  for (const path of ['/notifications/recover', '/notifications/replay']) {
    it(`POST ${path} counts a dry run as a read, not towards the calls that send something, and refuses wrong bodies`, async () => {
      for (let i = 0; i < 8; i++)
        assert.equal((await call('POST', path, { since, dry_run: true })).status, 200);
      for (const wrong of [{}, { since: 5 }, { since: 'yesterday' }, { since: '2026-01-01', colour: 'red' }])
        assert.equal((await call('POST', path, wrong)).status, 400, JSON.stringify(wrong));
      await within(5_000, async () => {
        await customer.forgetSends();
        const sent = await Promise.all(Array.from({ length: 9 }, () => call('POST', path, { since })));
        assert.deepEqual(sent.map(({ status }) => status).sort(), [...Array(8).fill(200), 429]);
      });
    });
  }
});
