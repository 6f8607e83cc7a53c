import assert from 'node:assert/strict';
import { Webhook } from 'standardwebhooks';
import { getEndpoint, resumeEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { changeRegistration } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { createSigningSecret } from '../../src/redis/records/secrets.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, startHarness } from '../service.js';

describe('3. The notification', () => {
  let h: Harness;
  let receiver: Receiver;

  before(async () => {
    h = await startHarness({
      RETRY_SCHEDULE_SECONDS: '0.2,0.3,0.4,1',
      probeScheduleMs: [300, 500],
    });
    await h.startWorker();
  });
  after(async () => await h.close());
  beforeEach(async () => {
    receiver = await startReceiver();
  });
  afterEach(async () => await receiver.close());

  it('is one signed POST with exactly this body and these headers', async () => {
    const client = await h.newClient(receiver.url);
    const { id, kind } = await h.publish({ client, asset: 'vid-9', segments: ['iab:17', 'mood:calm'] });
    assert.equal(kind, 'queued');
    await h.delivered(client, id);
    assert.equal(receiver.received.length, 1);
    const [got] = receiver.received;
    assert.ok(got);
    assert.equal(got.body, '{"event":"asset-update","platform_id":"vid-9"}');
    assert.equal(got.headers['webhook-id'], id);
    assert.equal(got.headers['webhook-client-token'], client);
    assert.equal(got.headers['content-type'], 'application/json');
    const secret = await createSigningSecret(h.db, createSecretBox(undefined), client);
    new Webhook(secret).verify(got.body, got.headers as Record<string, string>);
  });

  it('is retried after a failed attempt with the same webhook-id, never earlier than promised', async () => {
    const client = await h.newClient(receiver.url);
    receiver.answer = () => (receiver.received.length <= 2 ? 500 : 200);
    const { id } = await h.publish({ client, asset: 'a' });
    const done = await h.delivered(client, id);
    assert.deepEqual(
      done.attempts.map((a) => a.status),
      [500, 500, 200],
    );
    const at = receiver.received.map((r) => r.at) as [number, number, number];
    assert.ok(at[1] - at[0] >= 195, `second after ${at[1] - at[0]} ms`);
    assert.ok(at[2] - at[1] >= 295, `third after ${at[2] - at[1]} ms`);
    assert.equal(new Set(receiver.received.map((r) => r.headers['webhook-id'])).size, 1);
  });

  it('suspends the registration after 410: nothing is sent, everything stays owed, and resume probes and drains', async () => {
    const client = await h.newClient(receiver.url);
    receiver.answer = () => 410;
    const first = await h.publish({ client, asset: 'a' });
    await until('suspended', async () => (await getEndpoint(h.db, client)).state === 'suspended');
    const second = await h.publish({ client, asset: 'b' });
    assert.equal(second.kind, 'queued');
    await until('catch-up waits', async () => {
      const described = await h.temporal.workflow
        .getHandle(h.ids.catchUp(client))
        .describe()
        .catch(() => undefined);
      return described?.status.name === 'RUNNING';
    });
    assert.equal(receiver.received.length, 1);
    assert.equal((await getEndpoint(h.db, client)).owed, 2);
    receiver.answer = () => 200;
    assert.equal(await resumeEndpoint(h.db, client), true);
    await h.wake(client);
    await h.delivered(client, first.id);
    await h.delivered(client, second.id);
    assert.equal((await getEndpoint(h.db, client)).state, 'active');
  });

  it('goes to the new URL after a change with owed assets and a POST in flight, whose late 410 changes nothing', async () => {
    const client = await h.newClient(receiver.url);
    const next = await startReceiver();
    receiver.answer = () => 410;
    receiver.delayMs = 700;
    try {
      const first = await h.publish({ client, asset: 'a' });
      await until('under way', () => receiver.received.length === 1);
      await setPaused(h.db, client, true);
      const others = await Promise.all(['b', 'c', 'd'].map((asset) => h.publish({ client, asset })));
      await until('all are owed', async () => (await getEndpoint(h.db, client)).owed === 4);
      await changeRegistration(h.db, client, next.url);
      await setPaused(h.db, client, false);
      await h.wake(client);
      for (const { id } of [first, ...others]) await h.delivered(client, id);
      assert.deepEqual(
        ['a', 'b', 'c', 'd'].map((asset) => next.idsOf(asset)),
        [first, ...others].map(({ id }) => [id]),
      );
      assert.equal(receiver.received.length, 1);
      const { state, failures } = await getEndpoint(h.db, client);
      assert.deepEqual([state, failures], ['active', 0]);
    } finally {
      await next.close();
    }
  });
});
