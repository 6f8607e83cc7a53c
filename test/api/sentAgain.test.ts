import assert from 'node:assert/strict';
import { cancelNotification, redeliver } from '../../src/redis/notifications/notifications.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { changeRegistration, resetRegistration } from '../../src/redis/records/registrations.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from '../delivery/harness.js';
import { type Cli, openCli } from '../operator/cli.js';
import { newCustomer, newToken, type RunningApi, startApi } from './runningApi.js';

type Json = Record<string, unknown>;

/** Each test has a client of its own; what it sends arrives at a real receiver or is refused there. */
describe('redelivery, recovery and explanations', () => {
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

  async function call(method: string, path: string, body?: unknown) {
    const url = new URL(path, api.url);
    url.searchParams.set('client_token', customer.client_token);
    const answer = await fetch(url, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      body: JSON.stringify(body),
    });
    return { status: answer.status, headers: answer.headers, body: (await answer.json()) as Json };
  }

  const wake = () => h.delivering.catchUps.wakeNow(customer.client_token);
  const register = () => h.registerUrl(customer.client_token, receiver.url);
  const publish = async (asset: string, given: Json = {}) =>
    (await h.publish({ client: customer.client_token, asset, ...given })).id;
  const read = async (id: string) => (await call('GET', `/notifications/${id}`)).body;
  const stateIs = (id: string, state: string) =>
    until(`${id} is ${state}`, async () => {
      const found = await read(id);
      return found.state === state && found;
    });
  /** None before it is claimed, too. */
  const attempts = (found: Json) => (found.attempts as Json[] | undefined)?.length ?? 0;

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
    it('POST /notifications/{id}/redeliver makes a waiting one due immediately, and it is delivered', async () => {
      await register();
      const id = await waiting('vid-1');
      assert.deepEqual((await call('POST', `/notifications/${id}/redeliver`)).body, { notification_id: id });
      assert.equal(attempts(await stateIs(id, 'delivered')), 5);
      assert.deepEqual(new Set(receiver.idsOf('vid-1')), new Set([id]));
    });

    it('notification redeliver ID does the same for an operator', async () => {
      await register();
      const id = await waiting('vid-1');
      await cli.json('notification', 'redeliver', id);
      await stateIs(id, 'delivered');
    });

    it('an ended one is owed again under its id, with its retries', async () => {
      await register();
      const id = await publish('vid-1');
      await stateIs(id, 'delivered');
      receiver.answer = () => (receiver.received.length === 2 ? 500 : 200);
      await call('POST', `/notifications/${id}/redeliver`);
      await until('twice more', async () => attempts(await read(id)) === 3);
      await stateIs(id, 'delivered');
      assert.deepEqual(receiver.idsOf('vid-1'), [id, id, id]);
    });

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

    it('notification redeliver ID sends one that failed again', async () => {
      await register();
      const id = await failed('vid-1');
      let answers = 0;
      receiver.answer = () => (++answers === 1 ? 500 : 200);
      await cli.json('notification', 'redeliver', id);
      await stateIs(id, 'delivered');
      assert.equal(answers, 2);
    });

    it('answers 429 with Retry-After and sends nothing beyond a burst of 5 for one client', async () => {
      await register();
      const id = await publish('vid-1');
      await stateIs(id, 'delivered');
      const answers: Awaited<ReturnType<typeof call>>[] = [];
      for (let i = 0; i < 6; i++)
        answers.push(await call('POST', '/notifications/recover', { since: '2026-01-01' }));
      assert.equal(answers.at(-1)?.status, 429);
      const again = await call('POST', `/notifications/${id}/redeliver`);
      assert.deepEqual([again.status, again.body.code], [429, 'too_many_requests']);
      assert.ok(Number(again.headers.get('retry-after')) >= 1);
      assert.equal(receiver.received.length, 1);
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

    it('notification recover T --since W does the same for an operator', async () => {
      await register();
      const id = await failed('vid-1');
      const recovered = await cli.json('notification', 'recover', customer.client_token, '--since', '1h');
      assert.equal(recovered.count, 1);
      await stateIs(id, 'delivered');
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
    const pause = () => setPaused(h.db, customer.client_token, true);

    it('says that nothing was registered', async () => {
      await publish('vid-1');
      assert.equal((await why('vid-1')).decision, 'not_registered');
    });

    it('says that the platform asked for no notification, or that the asset had all segments', async () => {
      await register();
      await publish('vid-1', { eventId: 'an-1', segments: ['x'], notify: false });
      assert.deepEqual(await why('vid-1'), { event: 'an-1', decision: 'silent', notification: undefined });
      await publish('vid-1', { eventId: 'an-2', segments: ['x'] });
      assert.deepEqual(await why('vid-1'), {
        event: 'an-2',
        decision: 'no_new_segments',
        notification: undefined,
      });
    });

    it('says that another event brought the same segments first', async () => {
      await register();
      await pause();
      const [first] = await Promise.all(
        ['an-1', 'an-2'].map((eventId) => publish('vid-1', { eventId, segments: ['x'] })),
      );
      const found = await why('vid-1');
      assert.deepEqual([found.event, found.decision], ['an-2', 'no_new_segments']);
      assert.equal(found.notification?.notification_id ?? first, first);
    });

    it('says that the client is paused, and that a newer notification took the place of the owed one', async () => {
      await register();
      await pause();
      const older = await publish('vid-1');
      await until('claimed', async () => (await read(older)).state === 'waiting');
      const newer = await publish('vid-1');
      assert.equal((await stateIs(older, 'superseded')).superseded_by, newer);
      const { decision, notification } = await why('vid-1');
      assert.deepEqual(
        [decision, notification?.notification_id, notification?.state, notification?.waiting_reason],
        ['queued', newer, 'waiting', 'paused'],
      );
      assert.equal(notification?.next_attempt_at, undefined);
      const listed = await cli.run(['notification', 'list', '--client', customer.client_token]);
      assert.match(listed.stdout, /not while it is paused/);
    });

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
