import assert from 'node:assert/strict';
import { recoverFailed } from '../../src/redis/notifications/notifications.js';
import { forgetAnnouncement, owedOverview } from '../../src/redis/owed/owedClients.js';
import { dropFromIndex, isIndexed } from '../../src/redis/owed/owedIndex.js';
import { setClient } from '../../src/redis/records/clients.js';
import { getEndpoint, pauseEndpoint, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { keysMatching } from '../keysMatching.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from './harness.js';

describe('the sweep', () => {
  let h: Harness;
  let receiver: Receiver;
  before(async () => {
    [h, receiver] = await Promise.all([startHarness({}, 'worker'), startReceiver()]);
  });
  after(async () => {
    await receiver.close();
    await h.close();
  });

  it('handles every client, even if the keys of another are broken', async () => {
    const [broken, well] = await Promise.all([h.newClient(receiver.url), h.newClient(receiver.url)]);
    const now = Date.now();
    await h.db.redis.set(h.db.client(broken).owedSince, 'no sorted set');
    await h.db.redis.hset(h.db.client(broken).owed, 'a', 'msg_AAAAAAAAAAAAAAAAAAAAAA');
    await h.db.redis.zadd(h.db.global.owedClients, now, broken, now, well);
    // Claimed while no worker runs, and its workflow is lost.
    const { id } = await h.publish({ client: well, asset: 'a' });
    await until('its workflow runs', async () => {
      const handle = h.temporal.workflow.getHandle(h.ids.enrichment(well, id));
      return handle.terminate('by a test').then(
        () => true,
        () => false,
      );
    });
    h.skip(120_000);
    await h.startWorker();
    await h.sweep();
    await until('delivered', async () => (await h.notification(well, id))?.state === 'delivered');
  });

  it('knows a client before recover makes something owed again', async () => {
    const client = await h.newClient(receiver.url);
    assert.equal(await isIndexed(h.db, client), false);
    await recoverFailed(h.db, client, { since: 0, until: Date.now(), dryRun: true });
    assert.equal(await isIndexed(h.db, client), false);
    await recoverFailed(h.db, client, { since: 0, until: Date.now(), dryRun: false });
    assert.equal(await isIndexed(h.db, client), true);
  });

  it('knows a client whose claim and announcement were lost together, once its workflow has claimed again', async () => {
    await h.stopWorker();
    const client = await h.newClient(receiver.url);
    const { id } = await h.publish({ client, asset: 'a' });
    assert.equal(await isIndexed(h.db, client), true);
    const { base } = h.db.client(client);
    const lost = await Promise.all(
      ['owed*', 'due:*', 'known:*', 'notification*', 'endpoint'].map((name) =>
        keysMatching(h.db, `${base}${name}`),
      ),
    );
    await h.db.redis.del(lost.flat());
    await dropFromIndex(h.db, client, Number.MAX_SAFE_INTEGER);
    // With a failover the process loses its connection, and no longer knows what it has announced.
    forgetAnnouncement(h.db, client);
    await h.startWorker();
    await until('delivered', async () => (await h.notification(client, id))?.state === 'delivered');
    assert.equal(await isIndexed(h.db, client), true);
  });
});

describe('The sweep and a running catch-up', () => {
  let h: Harness;
  let receiver: Receiver;
  let client: string;
  before(async () => {
    h = await startHarness({ ATTEMPT_TIMEOUT_SECONDS: '60' });
    await h.startWorker();
  });
  after(() => h.close());
  beforeEach(async () => {
    receiver = await startReceiver();
    receiver.answer = ({ body }) => (body.includes('"busy') ? 'hang' : 200);
    client = await h.newClient(receiver.url);
  });
  afterEach(() => receiver.close());

  const catchUp = () => h.temporal.workflow.getHandle(h.ids.catchUp(client));
  const plannedAt = () => h.db.redis.hget(h.db.client(client).endpoint, 'planned_at');

  /** Owes the client assets that only catch-up will send, while it sleeps. */
  async function owe(...assets: string[]): Promise<void> {
    await pauseEndpoint(h.db, client);
    for (const asset of assets) await h.publish({ client, asset });
    await until('catch-up has planned', async () => (await plannedAt()) !== null);
    await until('it sleeps', async () => (await catchUp().describe()).memo?.owed !== undefined);
    await unpauseEndpoint(h.db, client);
  }

  it('that does nothing is replaced, also while other attempts of the client are under way', async () => {
    await owe('a');
    h.skip(120_000);
    await h.publish({ client, asset: 'busy' });
    await until('the busy one is under way', () => receiver.idsOf('busy').length === 1);
    await h.sweep();
    await until('only the busy one is owed', async () => (await getEndpoint(h.db, client)).owed === 1);
    assert.equal(receiver.idsOf('a').length, 1);
    assert.equal((await getEndpoint(h.db, client)).inFlight, 1);
  });

  it('that waits for a long POST is not replaced', async function () {
    this.timeout(120_000);
    await setClient(h.db, client, { maxInFlight: 1 });
    await owe('busy', 'busy too');
    h.skip(61_000);
    await h.wake(client);
    await until('one is under way', () => receiver.received.length === 1);
    const { runId } = await catchUp().describe();
    const soon = Number(await plannedAt()) + 20_000;
    // The sweep takes a catch-up that has not planned for 45 s for one that does nothing.
    await until('it has planned again', async () => Number(await plannedAt()) > soon, 45_000);
    await h.sweep();
    const { overdueMs } = await owedOverview(h.db, client, h.deps.settings.retentionMs);
    assert.ok(overdueMs > 60_000, `overdue for ${overdueMs} ms`);
    assert.equal((await catchUp().describe()).runId, runId);
  });
});
