import assert from 'node:assert/strict';
import { Webhook } from 'standardwebhooks';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, newCustomer, newToken, type RunningApi, startApi, startHarness } from '../service.js';
import { callAs, type Json } from './caller.js';

describe('calls for the publisher’s engineers', () => {
  let harness: Harness;
  let api: RunningApi;
  let receiver: Receiver;
  let customer: Awaited<ReturnType<typeof newCustomer>>;
  let token: string;

  before(async () => {
    harness = await startHarness({
      failingAfter: 1,
      probeScheduleMs: [600_000],
      RETRY_SCHEDULE_SECONDS: '600',
    });
    await harness.startWorker();
    api = await startApi({ prefix: harness.db.prefix, env: { TASK_QUEUE: harness.taskQueue } });
  });
  beforeEach(async () => {
    receiver = await startReceiver();
    customer = await newCustomer(api);
    token = await newToken(api, customer);
  });
  afterEach(() => receiver.close());
  after(async () => {
    await api.close();
    await harness.close();
  });

  const call = (...asked: [method: string, path: string, body?: unknown]) =>
    callAs(api, { token, client_token: asked[1] === '/clients' ? undefined : customer.client_token }, asked);

  async function register(url = receiver.url): Promise<void> {
    const query = new URLSearchParams({ access_token: token, client_token: customer.client_token, url });
    const answer = await fetch(`${api.url}/register_push_notifications?${query}`, { method: 'POST' });
    assert.equal(answer.status, 200);
  }

  const publish = (asset: string) => harness.publish({ client: customer.client_token, asset });
  const stateIs = (id: string, state: string) =>
    until(`${id} is ${state}`, async () => {
      const { body } = await call('GET', `/notifications/${id}`);
      return body.state === state && body;
    });

  it('GET /clients lists the account’s clients, and no other', async () => {
    await newCustomer(api);
    const one = { client_token: customer.client_token, name: 'Example Site' };
    const before = await call('GET', '/clients');
    assert.deepEqual(before.body, {
      clients: [{ ...one, state: 'not_registered', owed: 0 }],
      has_more: false,
    });
    await register();
    const after = await call('GET', '/clients');
    assert.deepEqual(after.body, {
      clients: [{ ...one, state: 'active', url: receiver.url, owed: 0 }],
      has_more: false,
    });
  });

  it('GET /push_notifications answers 404 when nothing is registered, then the registration and its state', async () => {
    assert.deepEqual((await call('GET', '/push_notifications')).body.code, 'not_registered');
    await register();
    await stateIs((await publish('vid-1')).id, 'delivered');
    const { body } = await call('GET', '/push_notifications');
    const { registered_at: registeredAt, last_success_at: lastSuccessAt, ...rest } = body;
    assert.ok(Date.parse(String(registeredAt)) <= Date.parse(String(lastSuccessAt)));
    assert.deepEqual(rest, {
      url: receiver.url,
      state: 'active',
      state_since: registeredAt,
      state_reason: 'registered',
      owed: 0,
      last_failure_at: null,
      last_error: null,
      next_attempt_at: null,
    });
  });

  it('GET /push_notifications/signing_secret answers it before a URL exists, and keeps it over a reset', async () => {
    const { body } = await call('GET', '/push_notifications/signing_secret');
    assert.match(String(body.signing_secret), /^whsec_/);
    await register();
    assert.deepEqual((await call('GET', '/push_notifications/signing_secret')).body, body);
  });

  it('POST /push_notifications/signing_secret makes a new one, and the previous one still signs', async () => {
    await register();
    const old = String((await call('GET', '/push_notifications/signing_secret')).body.signing_secret);
    const { body } = await call('POST', '/push_notifications/signing_secret');
    assert.ok(Date.parse(String(body.previous_valid_until)) > Date.now());
    await stateIs((await publish('vid-1')).id, 'delivered');
    const [got] = receiver.received;
    assert.ok(got);
    for (const secret of [old, String(body.signing_secret)]) {
      new Webhook(secret).verify(got.body, got.headers as Record<string, string>);
    }
  });

  describe('POST /push_notifications/test', () => {
    it('sends to the registered URL, and answers the request and its result', async () => {
      await register();
      const { body } = await call('POST', '/push_notifications/test');
      const [got] = receiver.received;
      assert.equal(got?.body, '{"event":"test","platform_id":"test"}');
      const request = body.request as { headers: Record<string, string>; body: string };
      assert.equal(request.body, got?.body);
      assert.equal(request.headers['webhook-id'], got?.headers['webhook-id']);
      assert.equal(body.status, 200);
      assert.equal(typeof body.milliseconds, 'number');
      assert.equal((await call('GET', '/push_notifications')).body.last_success_at, null);
    });
    it('sends to url= before one is registered, and checks it', async () => {
      const sent = await call('POST', `/push_notifications/test?url=${encodeURIComponent(receiver.url)}`);
      assert.equal(sent.body.status, 200);
      const inside = await call('POST', '/push_notifications/test?url=http%3A%2F%2F10.0.0.1%2F');
      assert.deepEqual([inside.status, inside.body.code], [400, 'url_not_public']);
      assert.equal((await call('POST', '/push_notifications/test')).status, 400);
    });
    it('names a failure', async () => {
      receiver.answer = () => 302;
      await register();
      const { body } = await call('POST', '/push_notifications/test');
      assert.deepEqual([body.status, body.error], [302, 'redirect']);
    });
    it('is limited to bursts of 5 per client', async () => {
      await register();
      const statuses: number[] = [];
      for (let i = 0; i < 6; i++) statuses.push((await call('POST', '/push_notifications/test')).status);
      assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
    });
  });

  it('POST /push_notifications/resume probes a failing endpoint now, then drains it', async () => {
    receiver.answer = () => 500;
    await register();
    const { id } = await publish('vid-1');
    await until('failing', async () => (await call('GET', '/push_notifications')).body.state === 'failing');
    assert.equal((await call('GET', '/push_notifications')).body.last_error, 'http_status');
    receiver.answer = () => 200;
    const resumed = await call('POST', '/push_notifications/resume');
    assert.equal(resumed.status, 202);
    const found = await stateIs(id, 'delivered');
    assert.equal((found.attempts as Json[]).at(-1)?.status, 200);
    assert.equal((await call('GET', '/push_notifications')).body.state, 'active');
  });

  describe('GET /notifications', () => {
    it('lists newest first, page by page, with filters', async () => {
      await register();
      for (const asset of ['vid-1', 'vid-2', 'vid-3']) await stateIs((await publish(asset)).id, 'delivered');
      const assets = (body: Json) => (body.notifications as Json[]).map((n) => n.platform_id);
      const first = await call('GET', '/notifications?limit=2');
      assert.deepEqual(assets(first.body), ['vid-3', 'vid-2']);
      const second = await call('GET', `/notifications?limit=2&cursor=${first.body.next_cursor}`);
      assert.deepEqual(assets(second.body), ['vid-1']);
      assert.deepEqual(assets((await call('GET', '/notifications?platform_id=vid-2')).body), ['vid-2']);
      assert.deepEqual(assets((await call('GET', '/notifications?state=failed')).body), []);
      assert.equal(assets((await call('GET', '/notifications?since=2020-01-01')).body).length, 3);
      assert.deepEqual(assets((await call('GET', '/notifications?until=2020-01-01T00:00:00Z')).body), []);
    });
    for (const wrong of [
      'state=odd',
      'since=yesterday',
      'limit=0',
      'limit=1000',
      'limit=0x10',
      'limit=1e2',
      'limit=%201',
      'cursor=x',
      'colour=red',
      'state=',
    ]) {
      it(`answers 400 to ${wrong}`, async () => {
        const { status, body } = await call('GET', `/notifications?${wrong}`);
        assert.equal(status, 400);
        assert.match(String(body.msg), new RegExp(wrong.split('=')[0] ?? ''));
      });
    }
  });

  it('GET /notifications/{id} shows its attempts with scheme and host of the URL, and answers 404 for another client', async () => {
    await register(`${receiver.url}?secret=1`);
    const { id } = await publish('vid-1');
    const found = await stateIs(id, 'delivered');
    const [attempt] = found.attempts as Json[];
    assert.equal(attempt?.url, new URL(receiver.url).origin);
    assert.equal(attempt?.status, 200);
    customer = await newCustomer(api);
    token = await newToken(api, customer);
    assert.equal((await call('GET', `/notifications/${id}`)).body.code, 'unknown_notification');
    assert.equal((await call('GET', '/notifications/odd')).status, 404);
  });

  it('POST /notifications/{id}/redeliver sends an ended one again, under the same id', async () => {
    await register();
    const { id } = await publish('vid-1');
    await stateIs(id, 'delivered');
    const again = await call('POST', `/notifications/${id}/redeliver`);
    assert.deepEqual([again.status, again.body], [202, { notification_id: id }]);
    await until('it came twice', () => receiver.idsOf('vid-1').length === 2);
    assert.deepEqual(receiver.idsOf('vid-1'), [id, id]);
  });

  it('POST /notifications/{id}/redeliver makes a waiting one due immediately', async () => {
    receiver.answer = () => 500;
    await register();
    const { id } = await publish('vid-1');
    await until('failing', async () => (await call('GET', '/push_notifications')).body.state === 'failing');
    assert.deepEqual((await call('POST', `/notifications/${id}/redeliver`)).body, { notification_id: id });
  });

  for (const path of ['/notifications/recover', '/notifications/replay']) {
    describe(`POST ${path}`, () => {
      it('answers {count}', async () => {
        const since = '2026-01-01T00:00:00Z';
        assert.deepEqual((await call('POST', path, { since })).body, { count: 0 });
        assert.deepEqual((await call('POST', path, { since, dry_run: true })).body, { count: 0 });
      });
      it('counts a dry run as a read, not towards the calls that send something', async () => {
        const since = '2026-01-01T00:00:00Z';
        for (let i = 0; i < 8; i++)
          assert.equal((await call('POST', path, { since, dry_run: true })).status, 200);
        const sent = await Promise.all(Array.from({ length: 6 }, () => call('POST', path, { since })));
        assert.deepEqual(sent.map(({ status }) => status).sort(), [200, 200, 200, 200, 200, 429]);
      });
      for (const wrong of [
        {},
        { since: 5 },
        { since: 'yesterday' },
        { since: '2026-01-01', colour: 'red' },
      ]) {
        it(`answers 400 to ${JSON.stringify(wrong)}`, async () => {
          assert.equal((await call('POST', path, wrong)).status, 400);
        });
      }
    });
  }

  it('GET /assets/{platform_id} says why something was or was not sent', async () => {
    assert.equal((await call('GET', '/assets/a%2Fb')).body.code, 'unknown_asset');
    await publish('a/b');
    const before = (await call('GET', '/assets/a%2Fb')).body;
    assert.equal((before.last_event as Json).decision, 'not_registered');
    await register();
    await stateIs((await publish('a/b')).id, 'delivered');
    const after = (await call('GET', '/assets/a%2Fb')).body;
    assert.equal((after.last_event as Json).decision, 'queued');
    assert.equal((after.last_notification as Json).state, 'delivered');
  });
});
