import assert from 'node:assert/strict';
import { once } from 'node:events';
import { ApplicationFailure } from '@temporalio/common';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { createActivities } from '../../activities/index.js';
import { isRetriedShortly, type Report } from '../../src/delivery/outcome.js';
import type { ClaimedEvent } from '../../src/redis/owed/claim.js';
import type { Waiting } from '../../src/redis/owed/standing.js';
import { setClient } from '../../src/redis/records/clients.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import type { Drained } from '../../src/upkeep/drain.js';
import { closeGate, startReceiver, until } from '../receiver.js';
import { dbWith, forTest, opened, openForSuite } from '../servers.js';
import { arrivedEvent, startHarness } from '../service.js';

/** On a real Redis; no worker runs, so that nothing else delivers. */
describe('Activities', () => {
  const start = () => startHarness({ RETRY_SCHEDULE_SECONDS: '600' }, 'worker');
  const h = openForSuite(start);
  const receiver = forTest(() => startReceiver());
  let client: string;
  let env: MockActivityEnvironment;

  beforeEach(async () => {
    client = await h.newClient(receiver.url);
    const logger = new DefaultLogger('ERROR');
    env = new MockActivityEnvironment({ startToCloseTimeoutMs: 600_000 }, { logger });
  });

  async function claimed(platformId: string, priority: ClaimedEvent['priority'] = 'live') {
    const { id } = await h.publish({ client, asset: platformId, segments: ['x'], priority });
    return { ...arrivedEvent(client, platformId, { notificationId: id, priority }), claim: 1 };
  }

  it('awaitDelivery tells Temporal how many wait, and why, while a receiver is slow', async () => {
    const gate = closeGate(receiver);
    const event = await claimed('slow');
    const heartbeat = once(env, 'heartbeat');
    const report = env.run(() => createActivities(h.deps).awaitDelivery([event], false));
    assert.deepEqual(await heartbeat, [{ delivered: 0, waiting: 1, reason: 'in_flight' }]);
    gate.open();
    const { delivered, status, rest } = (await report) as Report;
    assert.deepEqual({ delivered, status, rest }, { delivered: 1, status: 200, rest: [] });
  });

  it('awaitDelivery is not needed where backfill has all of its places: catch-up is woken', async () => {
    await setClient(h.db, client, { max_in_flight: 4 });
    const gate = closeGate(receiver);
    for (const asset of ['a', 'b', 'c']) await claimed(asset, 'backfill');
    void h.deps.hands.idle(client, 0);
    await until('they are under way', () => receiver.received.length === 3);
    const event = await claimed('d', 'backfill');
    const { rest } = await createActivities(h.deps).deliver([event]);
    assert.ok(rest[0] && !isRetriedShortly(rest[0].outcome));
    await until('catch-up is started', () => h.catchUpRun(client));
    const reasons = rest.map(({ outcome }) => (outcome as Waiting).reason);
    assert.deepEqual(reasons, ['full']);
    gate.open();
    await h.delivered(client, event.notificationId);
  });

  it('awaitDelivery ends within a second when it is cancelled; the attempt under way goes on', async () => {
    const gate = closeGate(receiver);
    const events = [await claimed('slow'), await claimed('slow too')];
    const left = env
      .run(() => createActivities(h.deps).awaitDelivery(events, false))
      .catch((err: unknown) => err);
    await until('both are under way', () => receiver.received.length === 2);
    env.cancel();
    const failure = await left;
    assert.ok(failure instanceof ApplicationFailure, String(failure));
    assert.equal(failure.message, `waits: in_flight (slow to ${client}); 1 more of 2 wait`);
    gate.open();
    for (const { notificationId } of events) await h.delivered(client, notificationId);
  });

  it('awaitDelivery finishes without a client whose keys are broken', async () => {
    const good = await claimed('good');
    client = await h.newClient(receiver.url);
    const broken = await claimed('broken');
    await h.db.redis.set(h.db.client(client).flight, 'no hash');
    const report = await env.run(() => createActivities(h.deps).awaitDelivery([good, broken], false));
    const { delivered, rest } = report as Report;
    assert.equal(delivered, 1);
    const reasons = rest.map(({ outcome }) => outcome.state === 'waiting' && outcome.reason);
    assert.deepEqual(reasons, ['own_failure']);
  });

  it('a cancelled drain reports what is left; attempts under way are delivered', async () => {
    const gate = closeGate(receiver);
    await h.publishAll(client, 'begun', 3);
    const result: Promise<Drained> = env.run(() => createActivities(h.deps).drain(client));
    await until('three POSTs are under way', () => receiver.received.length === 3);
    env.cancel();
    assert.equal((await result).owed, 3);
    gate.open();
    await h.noneOwed(client);
    assert.equal(receiver.received.length, 3);
  });

  it('a failure of Redis is told in words of ours, not in those of its answer', async () => {
    const idle = () => Promise.reject(new Error('OOM command not allowed, with args beginning with: `x`'));
    const hands = Object.assign(Object.create(h.deps.hands), { idle });
    const failed = env.run(() => createActivities({ ...h.deps, hands }).drain(client));
    await assert.rejects(failed, { type: 'redis_full', message: /^Redis is full \(maxmemory\)\. Events, / });
  });

  it('a sweep reports its progress to Temporal, also while one of its steps takes long', async () => {
    const h = opened(await start());
    const client = await h.newClient(receiver.url);
    const heartbeat = once(env, 'heartbeat');
    await setPaused(h.db, client, true);
    await h.publishAll(client, 'paused', 1);
    const zrangebyscore = async () => {
      await heartbeat;
      return [];
    };
    const { sweepOwedClients } = createActivities({ ...h.deps, db: dbWith(h.db, { zrangebyscore }) });
    const sweeping = env.run(() => sweepOwedClients());
    assert.deepEqual(await heartbeat, [{ looked: 1, woken: 0, replaced: 0 }]);
    await sweeping;
  });
});
