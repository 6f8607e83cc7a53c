import assert from 'node:assert/strict';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, newCustomer, newToken, type RunningApi, startApi, startHarness } from '../service.js';
import { forgetSends } from './forgetSends.js';

type Json = Record<string, unknown>;

describe('POST /notifications/replay', () => {
  let h: Harness;
  let api: RunningApi;
  let receiver: Receiver;
  let customer: Awaited<ReturnType<typeof newCustomer>>;
  let token: string;
  const since = '2026-01-01T00:00:00Z';

  before(async () => {
    h = await startHarness();
    await h.startWorker();
    api = await startApi({ prefix: h.db.prefix, env: { TASK_QUEUE: h.taskQueue } });
  });
  beforeEach(async () => {
    receiver = await startReceiver();
    customer = await newCustomer(api);
    token = await newToken(api, customer);
    await h.registerUrl(customer.client_token, receiver.url);
  });
  afterEach(() => receiver.close());
  after(async () => {
    await api.close();
    await h.close();
  });

  async function call(method: string, path: string, body?: unknown) {
    const answer = await fetch(`${api.url}${path}?client_token=${customer.client_token}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: answer.status, body: (await answer.json()) as Json };
  }
  const replay = async (body: Json) => {
    const answer = await call('POST', '/notifications/replay', body);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body;
  };
  const read = async (id: string) => (await call('GET', `/notifications/${id}`)).body;
  const publish = async (asset: string) => (await h.publish({ client: customer.client_token, asset })).id;
  const stateIs = (id: string, state: string) =>
    until(`${id} is ${state}`, async () => {
      const found = await read(id);
      return found.state === state && found;
    });
  const delivered = async (asset: string) => {
    const id = await publish(asset);
    await stateIs(id, 'delivered');
    return id;
  };
  const owed = async () => (await call('GET', '/push_notifications')).body.owed;
  const nothingOwed = () => until('nothing is owed', async () => (await owed()) === 0);
  const pause = () => setPaused(h.db, customer.client_token, true);
  const now = () => new Date().toISOString();
  /** Ends are written by Redis' clock, in ms: the next one is later. */
  const afterNow = async () => {
    const at = Date.now();
    await until('the next millisecond', () => Date.now() > at + 1);
  };

  it('sends each asset once, by its newest notification, as backfill, and none when repeated with the same until', async () => {
    const [older, newer] = [await delivered('vid-1'), await delivered('vid-1')];
    const other = await delivered('vid-2');
    await afterNow();
    const till = now();
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
    await setPaused(h.db, customer.client_token, false);
    await h.wake(customer.client_token);
    await nothingOwed();
    assert.deepEqual(receiver.idsOf('vid-1'), [older, newer, newer]);
    assert.deepEqual(receiver.idsOf('vid-2'), [other, other]);
    assert.equal(receiver.idsOf('vid-3').at(-1), later);
    assert.equal(receiver.received.length, before + 3);
    await forgetSends(h.db, customer.client_token);
    assert.deepEqual(await replay({ since, until: till }), { count: 0 }, 'it was delivered after that time');
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
