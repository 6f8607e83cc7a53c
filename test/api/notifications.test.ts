import assert from 'node:assert/strict';
import { cancelNotification } from '../../src/redis/notifications/redeliver.js';
import { closeGate, until } from '../receiver.js';
import type { Json } from '../service.js';
import { publisherScene } from './publisherScene.js';

describe('notifications: listed, shown, sent again', () => {
  const { h, receiver, customer, call, read, register, publish, delivered, pause } = publisherScene();
  const attempted = (id: string, times: number) =>
    until(`${id} was attempted`, async () => {
      const { attempts } = await read(`/notifications/${id}`);
      return (attempts as Json[] | undefined)?.length === times;
    });

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
    await attempted(id, 2);
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

  it('says since when a filtered list is complete, once older notifications are no longer listed', async () => {
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
    const { notifications, listed_since: from } = await read('/notifications?state=cancelled');
    assert.deepEqual(notifications, []);
    assert.ok(Date.parse(String(from)) >= at);
    for (const complete of ['state=waiting', 'state=failed', `since=${encodeURIComponent(String(from))}`])
      assert.equal((await read(`/notifications?${complete}`)).listed_since, undefined, complete);
  });

  describe('POST /notifications/replay', () => {
    const replay = async (body: Json) => (await call('POST', '/notifications/replay', body)).body;

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
    });

    it('answers listed_since when the 10,000 kept notifications begin after since', async () => {
      await register();
      const keys = h.db.client(customer.client_token);
      const at = Date.parse('2026-06-01T00:00:00Z');
      const commands = h.db.redis.pipeline();
      for (let i = 0; i < 10_000; i++) {
        const id = `msg_${String(i).padStart(22, 'A')}`;
        const record = { asset: `vid-${i % 5000}`, event: 'an-1', state: 'delivered', ended_at: at + i };
        commands.zadd(keys.notifications, at + i, id);
        commands.hset(keys.notification(id), { ...record, accepted_at: at + i });
      }
      await commands.exec();
      const end = '2026-06-02T00:00:00.000Z';
      const listed = { count: 5000, until: end, listed_since: '2026-06-01T00:00:00.000Z' };
      assert.deepEqual(await replay({ since, until: end, dry_run: true }), listed);
      const late = { since: '2026-06-01T00:00:09Z', until: end, dry_run: true };
      assert.deepEqual(await replay(late), { count: 1000, until: end });
    });
  });

  for (const path of ['/notifications/recover', '/notifications/replay']) {
    it(`POST ${path} counts a dry run as a read, not towards the calls that send something, and refuses wrong bodies`, async () => {
      for (let i = 0; i < 8; i++)
        assert.equal((await call('POST', path, { since, dry_run: true })).status, 200);
      for (const wrong of [{}, { since: 5 }, { since: 'yesterday' }, { since: '2026-01-01', colour: 'red' }])
        assert.equal((await call('POST', path, wrong)).status, 400, JSON.stringify(wrong));
      const sent = await Promise.all(Array.from({ length: 7 }, () => call('POST', path, { since })));
      assert.deepEqual(sent.map(({ status }) => status).sort(), [...Array(6).fill(200), 429]);
    });
  }
});
