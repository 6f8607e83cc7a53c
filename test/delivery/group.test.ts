import assert from 'node:assert/strict';
import { claimAndAttempt } from '../../activities/claimAndAttempt.js';
import type { AcceptedEvent } from '../../activities/outcome.js';
import { notificationId } from '../../src/ids.js';
import { setClient } from '../../src/store/clients.js';
import { closeDb, openDb, waitForRedis } from '../../src/store/db.js';
import { getEndpoint, pauseEndpoint } from '../../src/store/endpoint.js';
import { startProxy } from '../proxy.js';
import { servers } from '../servers.js';
import { type Harness, type Receiver, startHarness, startReceiver } from './harness.js';

describe('The first attempts of a group', () => {
  let h: Harness;
  let receiver: Receiver;

  before(async () => {
    h = await startHarness();
    receiver = await startReceiver();
  });
  after(async () => {
    await receiver.close();
    await h.close();
  });

  function accepted(client: string, asset: string): AcceptedEvent {
    const event = { clientToken: client, platformId: asset, eventId: `${asset}-1`, segments: ['x'] };
    const id = notificationId(event);
    return { ...event, notificationId: id, priority: 'live', lookedUpClaim: 0, acceptedAt: Date.now() };
  }
  const assets = (count: number) => Array.from({ length: count }, (_, i) => `vid-${i}`);

  it('what finds no place follows as places come free, within max_in_flight', async () => {
    const client = await h.newClient(receiver.url);
    await setClient(h.db, client, { maxInFlight: 3 });
    // Long enough that three are under way at one time.
    receiver.delayMs = 10;
    const outcomes = await claimAndAttempt(
      h.deps,
      assets(10).map((asset) => accepted(client, asset)),
    );
    receiver.delayMs = 0;
    assert.deepEqual(new Set(outcomes.map((o) => o.kind === 'ended' && o.state)), new Set(['delivered']));
    assert.equal(receiver.mostInFlight, 3);
    assert.equal((await getEndpoint(h.db, client)).owed, 0);
  });

  it('are made also where Redis’ answer to their claim is lost: what it took has nobody else', async () => {
    const client = await h.newClient(receiver.url);
    const proxy = await startProxy(servers().redisUrl);
    const db = openDb({ url: proxy.url, prefix: h.db.prefix, log: h.deps.log });
    await waitForRedis(db, 5000);
    const lost = proxy.cutBeforeReply('lost-answer-1');
    const events = ['lost-answer-1', 'lost-answer-2'].map((asset) => accepted(client, asset));
    const outcomes = await claimAndAttempt({ ...h.deps, db }, events);
    await lost;
    assert.deepEqual(
      outcomes.map((o) => o.kind === 'ended' && o.state),
      ['delivered', 'delivered'],
    );
    for (const asset of ['lost-answer-1', 'lost-answer-2'])
      assert.equal(receiver.idsOf(asset).length, 1, asset);
    closeDb(db);
    await proxy.close();
  });

  it('of an endpoint that fails nothing follows: the rest is left owed', async () => {
    const failing = await startReceiver();
    failing.answer = () => 500;
    const client = await h.newClient(failing.url);
    await setClient(h.db, client, { maxInFlight: 2 });
    const outcomes = await claimAndAttempt(
      h.deps,
      assets(6).map((asset) => accepted(client, asset)),
    );
    assert.deepEqual(
      outcomes.map((o) => o.kind === 'owed' && o.reason),
      ['retry', 'retry', 'full', 'full', 'full', 'full'],
    );
    assert.equal(failing.received.length, 2);
    await failing.close();
  });

  it('what is catch-up’s from the beginning is left to it at once, on disk and awake', async () => {
    const client = await h.newClient(receiver.url);
    await pauseEndpoint(h.db, client);
    const [outcome] = await claimAndAttempt(h.deps, [accepted(client, 'vid-1')]);
    assert.ok(outcome?.kind === 'owed' && outcome.reason === 'paused' && outcome.left);
    const catchUp = h.temporal.workflow.getHandle(`catch-up/${client}`);
    assert.equal((await catchUp.describe()).status.name, 'RUNNING');
    await catchUp.terminate();
  });

  it('one client’s broken key harms no other client of the group', async () => {
    const [broken, whole] = [await h.newClient(receiver.url), await h.newClient(receiver.url)];
    await h.db.redis.set(h.db.client(broken).owed, 'no hash');
    const outcomes = await claimAndAttempt(h.deps, [accepted(broken, 'vid-1'), accepted(whole, 'vid-1')]);
    assert.equal(outcomes[0]?.kind, 'unclaimed');
    assert.ok(outcomes[1]?.kind === 'ended' && outcomes[1].state === 'delivered');
    await h.db.redis.del(h.db.client(broken).owed);
  });
});
