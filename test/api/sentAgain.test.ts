import assert from 'node:assert/strict';
import { cancelNotification, redeliver } from '../../src/redis/notifications/redeliver.js';
import { changeRegistration, resetRegistration } from '../../src/redis/records/registrations.js';
import { type Cli, openCli } from '../operator/cli.js';
import { startProxy } from '../proxy.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { servers } from '../servers.js';
import { type Harness, newCustomer, newToken, type RunningApi, startApi, startHarness } from '../service.js';

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

  async function call(method: string, path: string, body?: unknown, to = api) {
    const url = new URL(path, to.url);
    url.searchParams.set('client_token', customer.client_token);
    const answer = await fetch(url, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      body: JSON.stringify(body),
      // A call that waits for Temporal takes 9 s or more.
      signal: AbortSignal.timeout(5000),
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
