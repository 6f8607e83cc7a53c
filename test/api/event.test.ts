import assert from 'node:assert/strict';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, newCustomer, newToken, type RunningApi, startApi, startHarness } from '../service.js';

type Json = Record<string, unknown>;

describe('GET /events/{event_id}', () => {
  let h: Harness;
  let api: RunningApi;
  let receiver: Receiver;
  let customer: Awaited<ReturnType<typeof newCustomer>>;
  let token: string;

  before(async () => {
    h = await startHarness();
    await h.startWorker();
    api = await startApi({ prefix: h.db.prefix, env: { TASK_QUEUE: h.taskQueue } });
    receiver = await startReceiver();
  });
  beforeEach(async () => {
    customer = await newCustomer(api);
    token = await newToken(api, customer);
  });
  after(async () => {
    await api.close();
    await h.close();
    await receiver.close();
  });

  async function get(path: string): Promise<{ status: number; body: Json }> {
    const answer = await fetch(`${api.url}${path}?client_token=${customer.client_token}`, {
      headers: { authorization: `Bearer ${token}` },
    });
    return { status: answer.status, body: (await answer.json()) as Json };
  }
  const event = (id: string) => get(`/events/${encodeURIComponent(id)}`);
  const register = () => h.registerUrl(customer.client_token, receiver.url);
  const publish = (asset: string, eventId: string, segments?: string[]) =>
    h.publish({ client: customer.client_token, asset, eventId, segments });

  it('answers the notification that the event made, and its state', async () => {
    await register();
    const { id } = await publish('vid-1', 'an-7731:1');
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
    await setPaused(h.db, customer.client_token, true);
    await publish('vid-1', 'an-1');
    const second = await publish('vid-1', 'an-2');
    const { body } = await event('an-1');
    assert.deepEqual([body.state, body.superseded_by], ['superseded', second.id]);
    assert.deepEqual((await event('an-2')).body.waiting_reason, 'paused');
    await until('a later millisecond', () => Date.now() > Date.parse(String(body.accepted_at)) + 1);
    const other = await publish('vid-2', 'an-1');
    assert.equal((await event('an-1')).body.notification_id, other.id);
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

  it('answers 404 to a customer that asks for the client of another', async () => {
    token = await newToken(api, await newCustomer(api));
    for (const path of ['/events/an-1', '/assets/vid-1'])
      assert.equal((await get(path)).body.code, 'unknown_client');
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
