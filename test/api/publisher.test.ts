import assert from 'node:assert/strict';
import { cancelNotification } from '../../src/redis/notifications/redeliver.js';
import { createClient } from '../../src/redis/records/clients.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { previousSigningSecretsAtMost } from '../../src/redis/records/secrets.js';
import { closeGate, startReceiver, until } from '../receiver.js';
import { forTest } from '../servers.js';
import { type Customer, type Json, newCustomer, patient, useShared } from '../service.js';

describe('calls for the publisher’s engineers', () => {
  const h = useShared(patient);
  const receiver = forTest(() => startReceiver());
  const customer = forTest(() => newCustomer(h));

  const call: Customer['call'] = (...asked) => customer.call(...asked);
  const read = async (path: string) => (await call('GET', path)).body;
  const register = () => customer.register(receiver.url);
  const publish = async (asset: string, eventId?: string, segments?: string[]) =>
    (await h.publish({ client: customer.client_token, asset, eventId, segments })).id;
  const reaches = (id: string, state: 'delivered' | 'failed') => h.reaches(customer.client_token, id, state);
  async function delivered(asset: string, eventId?: string): Promise<string> {
    const id = await publish(asset, eventId);
    await reaches(id, 'delivered');
    return id;
  }
  const attempted = (id: string, times: number) =>
    until(`${id} was attempted`, async () => {
      const { attempts } = await read(`/notifications/${id}`);
      return (attempts as Json[] | undefined)?.length === times;
    });
  const pause = (isPaused: boolean) => setPaused(h.db, customer.client_token, isPaused);

  it('GET /clients lists the account’s clients, and no other', async () => {
    await newCustomer(h);
    const one = { client_token: customer.client_token, name: 'Example Site' };
    const clients = [{ ...one, state: 'not_registered', owed: 0 }];
    assert.deepEqual(await read('/clients'), { clients, has_more: false });
    await register();
    const registered = [{ ...one, state: 'active', url: receiver.url, owed: 0 }];
    assert.deepEqual(await read('/clients'), { clients: registered, has_more: false });
  });

  it('GET /clients lists every client once, by client token, 50 by default, also while clients come and go', async () => {
    const { account_id: accountId } = customer;
    const create = (clientToken: string) => createClient(h.db, { accountId, name: 'Site', clientToken });
    const names = Array.from({ length: 55 }, (_, i) => `page-${accountId}-${String(i).padStart(2, '0')}`);
    for (const clientToken of names) await create(clientToken);
    const seen: string[] = [];
    const sizes: number[] = [];
    for (let query = '?limit=5'; query !== ''; ) {
      const { clients, next_cursor: cursor } = await read(`/clients${query}`);
      const tokens = (clients as Json[]).map(({ client_token }) => String(client_token));
      sizes.push(tokens.length);
      seen.push(...tokens);
      query = cursor === undefined ? '' : `?cursor=${cursor}`;
      const { status } = await (await newCustomer(h)).call('GET', `/clients${query}`);
      assert.equal(status, query === '' ? 200 : 400, 'a cursor of another account');
      // In front of the cursor: it moves nothing that is still to come.
      await create(`0${seen.length}-${accountId}`);
    }
    assert.deepEqual(sizes, [5, 50, 1]);
    assert.deepEqual(seen, [customer.client_token, ...names].sort());
  });

  it('GET /push_notifications answers 404 when nothing is registered, then the registration and its state', async () => {
    assert.equal((await read('/push_notifications')).code, 'not_registered');
    await register();
    await delivered('vid-1');
    const { registered_at: at, last_success_at: last, ...rest } = await read('/push_notifications');
    assert.ok(Date.parse(String(at)) <= Date.parse(String(last)));
    assert.deepEqual(rest, {
      url: receiver.url,
      state: 'active',
      state_since: at,
      state_reason: 'registered',
      owed: 0,
      failed: 0,
      quiet_seconds: 0,
      last_failure_at: null,
      last_error: null,
      last_detail: null,
      next_attempt_at: null,
    });
  });

  const secretPath = '/push_notifications/signing_secret';

  it('POST /push_notifications/signing_secret answers 429 with Retry-After while ten previous ones still sign, and loses no secret', async () => {
    await read(secretPath);
    let last: unknown;
    for (let i = 0; i < previousSigningSecretsAtMost; i++)
      last = (await call('POST', secretPath)).body.signing_secret;
    const refused = await call('POST', secretPath);
    assert.deepEqual([refused.status, refused.body.code], [429, 'too_many_requests']);
    const waitSeconds = Number(refused.headers.get('retry-after'));
    assert.ok(waitSeconds > 23 * 3600 && waitSeconds <= 24 * 3600, String(waitSeconds));
    assert.equal((await read(secretPath)).signing_secret, last);
  });

  it('POST /push_notifications/test sends to the registered URL, answers the request and its result, and is limited to bursts of 5', async () => {
    await register();
    const test = () => call('POST', '/push_notifications/test');
    const { body } = await test();
    const [got] = receiver.received;
    assert.equal(got?.body, '{"event":"test","platform_id":"test"}');
    const request = body.request as { headers: Record<string, string>; body: string };
    assert.equal(request.body, got?.body);
    assert.equal(request.headers['webhook-id'], got?.headers['webhook-id']);
    assert.deepEqual([body.status, typeof body.milliseconds], [200, 'number']);
    assert.equal((await read('/push_notifications')).last_success_at, null);
    receiver.answer = () => 302;
    const failed = (await test()).body;
    assert.deepEqual([failed.status, failed.error], [302, 'redirect']);
    const statuses: number[] = [];
    for (let i = 0; i < 5; i++) statuses.push((await test()).status);
    assert.deepEqual(statuses, [200, 200, 200, 200, 429]);
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
    const newer = Array.from({ length: 10_000 }, (_, i) => [at + i, `msg_${String(i).padStart(22, 'A')}`]);
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
      const later = (ms: number) => new Date(Date.now() + ms).toISOString();
      const wrong = [
        { since, until: later(60_000) },
        { since, until: '2099-01-01T00:00:00Z', dry_run: true },
        { since: later(60_000) },
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

  it('GET /assets takes any id in the query as in the path, and names a known one that looks alike', async () => {
    const asset = (id: string) => `/assets?platform_id=${encodeURIComponent(id)}`;
    for (const id of ['..', '.', 'x/../y', 'a%2Fb', 'a b', 'é', '\ufeffcsv', 'cafe\u0301']) {
      await publish(id);
      assert.equal((await read(asset(id))).platform_id, id);
    }
    assert.equal((await call('GET', '/assets/x?platform_id=x')).status, 400);
    const alike = { ' a b ': '"a b"', 'a\u00a0b': '"a b"', csv: '"\\ufeffcsv"', caf\u00e9: '"cafe\\u0301"' };
    for (const [given, known] of Object.entries({ ...alike, 'e\u0301': '"\\u00e9"' })) {
      const { msg, code } = await read(asset(given));
      assert.equal(code, 'unknown_asset');
      assert.ok(String(msg).includes(`compared byte for byte: ${known} is known`), String(msg));
    }
    assert.doesNotMatch(String((await read(asset('csw'))).msg), /byte/);
  });

  it('GET /assets/{platform_id} says why something was or was not sent', async () => {
    assert.equal((await read('/assets/a%2Fb')).code, 'unknown_asset');
    await publish('a/b');
    assert.equal(((await read('/assets/a%2Fb')).last_event as Json).decision, 'not_registered');
    await register();
    await delivered('a/b');
    const after = await read('/assets/a%2Fb');
    assert.equal((after.last_event as Json).decision, 'queued');
    assert.equal((after.last_notification as Json).state, 'delivered');
  });

  describe('GET /events/{event_id}', () => {
    it('answers the newest notification that the event made: to the customer, and to the platform for any client, like GET /assets/{platform_id}', async () => {
      await register();
      const id = await delivered('vid-1', 'an-7731:1');
      const { accepted_at: accepted, ended_at: ended, ...rest } = await read('/events/an-7731:1');
      assert.ok(Date.parse(String(accepted)) <= Date.parse(String(ended)));
      assert.deepEqual(rest, {
        event_id: 'an-7731:1',
        notification_id: id,
        platform_id: 'vid-1',
        state: 'delivered',
        priority: 'live',
      });
      const paths = ['/events/an-7731:1', '/assets/vid-1'];
      const answers = async () =>
        (await Promise.all(paths.map((path) => call('GET', path)))).map(({ status, body }) => [status, body]);
      const toCustomer = await answers();
      customer.token = (await newCustomer(h, ['enrichments'])).token;
      assert.deepEqual(await answers(), toCustomer);
      assert.equal((await read('/events/an-2')).code, 'unknown_event');
      assert.equal((await read('/notifications')).code, 'unknown_client');
    });

    it('names the notification that superseded it; for two assets with the same event id answers the newer notification', async () => {
      await register();
      await pause(true);
      await publish('vid-1', 'an-1');
      const second = await publish('vid-1', 'an-2');
      const event = await read('/events/an-1');
      assert.deepEqual([event.state, event.superseded_by], ['superseded', second]);
      assert.equal((await read('/events/an-2')).waiting_reason, 'paused');
      await until('a later millisecond', () => Date.now() > Date.parse(String(event.accepted_at)) + 1);
      const other = await publish('vid-2', 'an-1');
      assert.equal((await read('/events/an-1')).notification_id, other);
    });

    it('answers 404 unknown_event, with the times of retention, when it made none or does not exist', async () => {
      await register();
      await publish('vid-1', 'an-1', ['x']);
      await publish('vid-1', 'an-2', ['x']);
      for (const id of ['an-2', 'an-3']) {
        const { status, body } = await call('GET', `/events/${id}`);
        assert.deepEqual([status, body.code], [404, 'unknown_event'], id);
        assert.match(String(body.msg), /10,000.*14 days.*GET \/assets/);
      }
    });
  });
});
