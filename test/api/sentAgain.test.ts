import assert from 'node:assert/strict';
import { cancelNotification, redeliver } from '../../src/redis/notifications/redeliver.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { changeRegistration, resetRegistration } from '../../src/redis/records/registrations.js';
import { type Cli, openCli } from '../operator/cli.js';
import { startProxy } from '../proxy.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { servers } from '../servers.js';
import { type Harness, newCustomer, newToken, type RunningApi, startApi, startHarness } from '../service.js';
import { callAs, forgetSends, type Json } from './caller.js';

/** Each test has a client of its own; what it sends arrives at a real receiver or is refused there. */
describe('redelivery, recovery, replay and explanations', () => {
  let h: Harness;
  let api: RunningApi;
  let cli: Cli;
  let receiver: Receiver;
  let customer: Awaited<ReturnType<typeof newCustomer>>;
  let token: string;
  let refused: Set<string>;

  before(async () => {
    h = await startHarness({
      RETRY_SCHEDULE_SECONDS: '0.1,0.1,0.1,600',
      retryWindowMs: 300_000,
      failingAfter: 100,
    });
    await h.startWorker();
    api = await startApi({ prefix: h.db.prefix, env: { TASK_QUEUE: h.taskQueue } });
    cli = await openCli({ KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue });
  });
  beforeEach(async () => {
    refused = new Set();
    receiver = await startReceiver();
    receiver.answer = ({ body }) => (refused.has(JSON.parse(body).platform_id) ? 400 : 200);
    customer = await newCustomer(api);
    token = await newToken(api, customer);
  });
  afterEach(() => receiver.close());
  after(async () => {
    cli.close();
    await api.close();
    await h.close();
  });

  const call = (method: string, path: string, body?: unknown, to = api) =>
    callAs(to, { token, client_token: customer.client_token }, [method, path, body]);

  const wake = () => h.delivering.catchUps.wakeNow(customer.client_token);
  const register = () => h.registerUrl(customer.client_token, receiver.url);
  const publish = async (asset: string, eventId?: string, segments?: string[]) =>
    (await h.publish({ client: customer.client_token, asset, eventId, segments })).id;
  const read = async (id: string) => (await call('GET', `/notifications/${id}`)).body;
  const stateIs = (id: string, state: string) =>
    until(`${id} is ${state}`, async () => {
      const found = await read(id);
      return found.state === state && found;
    });
  /** None before it is claimed, too. */
  const attempts = (found: Json) => (found.attempts as Json[] | undefined)?.length ?? 0;

  const delivered = async (asset: string) => {
    const id = await publish(asset);
    await stateIs(id, 'delivered');
    return id;
  };
  const pause = (isPaused = true) => setPaused(h.db, customer.client_token, isPaused);

  /** Owed, after the short retries, for another ten minutes. */
  async function waiting(asset: string): Promise<string> {
    refused.add(asset);
    const id = await publish(asset);
    await until('the short retries are over', async () => attempts(await read(id)) === 4);
    refused.delete(asset);
    assert.equal((await read(id)).waiting_reason, 'retry');
    return id;
  }

  /** Refused alone while its endpoint takes others: ended as failed after its window. */
  async function failed(asset: string): Promise<string> {
    const id = await waiting(asset);
    refused.add(asset);
    await stateIs(await publish(`beside-${asset}`), 'delivered');
    await redeliver(h.db, customer.client_token, id);
    await wake();
    assert.equal((await stateIs(id, 'failed')).reason, 'window');
    refused.delete(asset);
    return id;
  }

  describe('redeliver', () => {
    it('one whose asset is owed by a newer one makes that one due, and the answer names it', async () => {
      await register();
      const older = await publish('vid-1');
      await stateIs(older, 'delivered');
      const newer = await waiting('vid-1');
      const { status, body } = await call('POST', `/notifications/${older}/redeliver`);
      assert.deepEqual([status, body], [202, { notification_id: newer }]);
      await stateIs(newer, 'delivered');
      assert.equal(attempts(await read(older)), 1);
    });
  });

  describe('recover', () => {
    it('makes failed notifications without a newer one of their asset owed again, and they are delivered', async () => {
      await register();
      const [lost, followed] = await Promise.all([failed('vid-1'), failed('vid-2')]);
      await stateIs(await publish('vid-2'), 'delivered');
      const since = '2026-01-01T00:00:00Z';
      const before = receiver.received.length;
      assert.deepEqual((await call('POST', '/notifications/recover', { since, dry_run: true })).body, {
        count: 1,
      });
      const dry = await cli.json(
        'notification',
        'recover',
        customer.client_token,
        '--since',
        '1h',
        '--dry-run',
      );
      assert.equal(dry.count, 1);
      const later = new Date(Date.now() + 60_000).toISOString();
      assert.deepEqual((await call('POST', '/notifications/recover', { since: later })).body, { count: 0 });
      const until = '2026-01-02T00:00:00Z';
      assert.deepEqual((await call('POST', '/notifications/recover', { since, until })).body, { count: 0 });
      assert.equal((await read(lost)).state, 'failed', 'a dry run changes nothing');
      assert.equal(receiver.received.length, before);

      assert.deepEqual((await call('POST', '/notifications/recover', { since })).body, { count: 1 });
      await stateIs(lost, 'delivered');
      assert.equal(receiver.idsOf('vid-1').at(-1), lost);
      assert.equal((await read(followed)).state, 'failed');
      assert.deepEqual((await call('POST', '/notifications/recover', { since })).body, { count: 0 });
    });
  });

  describe('replay', () => {
    const since = '2026-01-01T00:00:00Z';
    const replay = async (body: Json) => {
      const answer = await call('POST', '/notifications/replay', body);
      assert.equal(answer.status, 200, answer.text);
      return answer.body;
    };
    const owed = async () => (await call('GET', '/push_notifications')).body.owed;
    const nothingOwed = () => until('nothing is owed', async () => (await owed()) === 0);
    /** Ends are written by Redis' clock, in ms: the next one is later. */
    const afterNow = async () => {
      const at = Date.now();
      await until('the next millisecond', () => Date.now() > at + 1);
    };
    beforeEach(register);

    it('sends each asset once, by its newest notification, as backfill, and none when repeated with the same until', async () => {
      const [older, newer] = [await delivered('vid-1'), await delivered('vid-1')];
      const other = await delivered('vid-2');
      await afterNow();
      const till = new Date().toISOString();
      await afterNow();
      const later = await delivered('vid-3');
      const before = receiver.received.length;

      assert.deepEqual(await replay({ since, until: till, dry_run: true }), { count: 2 });
      assert.deepEqual(await replay({ since: till }), { count: 1 });
      await nothingOwed();
      assert.equal(receiver.idsOf('vid-3').length, 2);

      await pause();
      assert.deepEqual(await replay({ since, until: till }), { count: 2 });
      const waiting = await read(newer);
      assert.deepEqual([waiting.state, waiting.priority], ['waiting', 'backfill']);
      assert.equal((await read(older)).state, 'delivered');
      assert.deepEqual(await replay({ since, until: till }), { count: 0 });
      await pause(false);
      await wake();
      await nothingOwed();
      assert.deepEqual(receiver.idsOf('vid-1'), [older, newer, newer]);
      assert.deepEqual(receiver.idsOf('vid-2'), [other, other]);
      assert.equal(receiver.idsOf('vid-3').at(-1), later);
      assert.equal(receiver.received.length, before + 3);
      await forgetSends(h.db, customer.client_token);
      assert.deepEqual(
        await replay({ since, until: till }),
        { count: 0 },
        'it was delivered after that time',
      );
    });

    it('answers listed_since when the 10,000 kept notifications begin after since', async () => {
      const { redis } = h.db;
      const keys = h.db.client(customer.client_token);
      const at = Date.parse('2026-06-01T00:00:00Z');
      for (let first = 0; first < 10_000; first += 1000) {
        const commands = redis.pipeline();
        for (let i = first; i < first + 1000; i++) {
          const [id, asset] = [`msg_${String(i).padStart(22, 'A')}`, `vid-${i % 5000}`];
          const ended = { state: 'delivered', ended_at: at + i };
          commands.zadd(keys.notifications, at + i, id);
          commands.hset(keys.notification(id), { asset, event: 'an-1', accepted_at: at + i, ...ended });
        }
        await commands.exec();
      }
      assert.deepEqual(await replay({ since, dry_run: true }), {
        count: 5000,
        listed_since: '2026-06-01T00:00:00.000Z',
      });
      assert.deepEqual(await replay({ since: '2026-06-01T00:00:09Z', dry_run: true }), { count: 1000 });
      await pause();
      assert.equal((await replay({ since })).count, 5000);
      assert.equal(await owed(), 5000);
    });
  });

  it('while Temporal does not answer: redeliver, resume, recover and replay answer as usual', async () => {
    await register();
    const [ended, again] = [await failed('vid-1'), await publish('vid-2')];
    await stateIs(again, 'delivered');
    const proxy = await startProxy(`tcp://${servers().temporalAddress}`);
    const env = { TASK_QUEUE: h.taskQueue };
    const away = await startApi({ prefix: h.db.prefix, env, temporalAddress: new URL(proxy.url).host });
    try {
      proxy.hang();
      const since = '2026-01-01T00:00:00Z';
      for (const [status, path, body] of [
        [202, `/notifications/${again}/redeliver`, undefined],
        [202, '/push_notifications/resume', undefined],
        [200, '/notifications/recover', { since }],
        [200, '/notifications/replay', { since }],
      ] as const) {
        const answer = await call('POST', path, body, away);
        assert.equal(answer.status, status, `${path}: ${JSON.stringify(answer.body)}`);
      }
    } finally {
      await proxy.close();
      await away.close();
    }
    // As the sweep does.
    await wake();
    await stateIs(ended, 'delivered');
    await until('it was sent again', async () => attempts(await read(again)) === 2);
  });

  describe('GET /events/{event_id}', () => {
    const get = async (path: string) => {
      const { status, body } = await call('GET', path);
      return { status, body };
    };
    const event = (id: string) => get(`/events/${encodeURIComponent(id)}`);

    it('answers the notification that the event made, and its state', async () => {
      await register();
      const id = await publish('vid-1', 'an-7731:1');
      await until('delivered', async () => (await event('an-7731:1')).body.state === 'delivered');
      const { status, body } = await event('an-7731:1');
      const { accepted_at: acceptedAt, ended_at: endedAt, ...rest } = body;
      assert.ok(Date.parse(String(acceptedAt)) <= Date.parse(String(endedAt)));
      assert.deepEqual(
        [status, rest],
        [
          200,
          {
            event_id: 'an-7731:1',
            notification_id: id,
            platform_id: 'vid-1',
            state: 'delivered',
            priority: 'live',
          },
        ],
      );
    });

    it('names the notification that superseded it; for two assets with the same event id answers the newer notification', async () => {
      await register();
      await pause();
      await publish('vid-1', 'an-1');
      const second = await publish('vid-1', 'an-2');
      const { body } = await event('an-1');
      assert.deepEqual([body.state, body.superseded_by], ['superseded', second]);
      assert.deepEqual((await event('an-2')).body.waiting_reason, 'paused');
      await until('a later millisecond', () => Date.now() > Date.parse(String(body.accepted_at)) + 1);
      const other = await publish('vid-2', 'an-1');
      assert.equal((await event('an-1')).body.notification_id, other);
    });

    it('answers the platform, for any client, as it answers the customer; the same for GET /assets/{platform_id}', async () => {
      await register();
      await publish('vid-1', 'an-1');
      await until('delivered', async () => (await event('an-1')).body.state === 'delivered');
      const calls = ['/events/an-1', '/assets/vid-1'];
      const toCustomer = await Promise.all(calls.map(get));
      token = await newToken(api, await newCustomer(api, ['enrichments']));
      assert.deepEqual(await Promise.all(calls.map(get)), toCustomer);
      assert.equal((await event('an-2')).body.code, 'unknown_event');
      assert.equal((await get('/notifications')).body.code, 'unknown_client');
      customer = { ...customer, client_token: 'NOBODY' as typeof customer.client_token };
      assert.deepEqual(
        (await Promise.all(calls.map(get))).map(({ status, body }) => [status, body.code]),
        calls.map(() => [404, 'unknown_client']),
      );
    });

    it('answers 404 unknown_event, with the times of retention, when it made none, belongs to another client or does not exist', async () => {
      await register();
      await publish('vid-1', 'an-1', ['x']);
      await publish('vid-1', 'an-2', ['x']);
      const answers = [
        await event('an-2'),
        await event('an-3'),
        await event('no id'),
        await event('x'.repeat(200)),
      ];
      customer = await newCustomer(api);
      token = await newToken(api, customer);
      answers.push(await event('an-1'));
      for (const { status, body } of answers) {
        assert.deepEqual([status, body.code], [404, 'unknown_event']);
        assert.match(String(body.msg), /10,000.*14 days.*\/assets\/\{platform_id\}/);
      }
    });
  });

  describe('GET /assets/{platform_id}: "why did I get nothing?"', () => {
    const why = async (asset: string) => {
      const { body } = await call('GET', `/assets/${asset}`);
      return {
        event: (body.last_event as Json)?.event_id,
        decision: (body.last_event as Json)?.decision,
        notification: body.last_notification as Json | undefined,
      };
    };

    it('says that it failed, was cancelled, is suspended, or waits for Retry-After', async () => {
      await register();
      await failed('vid-1');
      const { state, reason } = (await why('vid-1')).notification as Json;
      assert.deepEqual([state, reason], ['failed', 'window']);
      await cancelNotification(h.db, customer.client_token, await waiting('vid-2'));
      assert.equal((await why('vid-2')).notification?.state, 'cancelled');

      const waits = (reason: string) =>
        until(reason, async () => (await why('vid-3')).notification?.waiting_reason === reason);
      receiver.answer = () => ({ status: 503, headers: { 'retry-after': '3600' } });
      await publish('vid-3');
      await waits('not_before');
      const next = Date.parse(String((await why('vid-3')).notification?.next_attempt_at));
      assert.ok(next > Date.now() + 3_500_000, 'the effective time, not the schedule’s');
      receiver.answer = () => 410;
      await changeRegistration(h.db, customer.client_token, `${receiver.url}/gone`);
      await wake();
      await waits('suspended');
      await resetRegistration(h.db, customer.client_token);
      await waits('no_registration');
    });
  });
});
