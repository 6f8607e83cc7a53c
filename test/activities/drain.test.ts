import assert from 'node:assert/strict';
import { once } from 'node:events';
import { MockActivityEnvironment } from '@temporalio/testing';
import { createActivities } from '../../activities/index.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { closeGate, type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, startHarness } from '../service.js';

/** Activities as they are, on a real Redis; no worker runs, so that nothing else delivers. */
describe('Activities of upkeep', () => {
  let h: Harness;
  let receiver: Receiver;
  let env: MockActivityEnvironment;

  beforeEach(async () => {
    h = await startHarness({}, 'worker');
    receiver = await startReceiver();
    env = new MockActivityEnvironment({ startToCloseTimeoutMs: 600_000 });
  });
  afterEach(() => h.close());

  const inActivity = <T>(work: () => Promise<T>) => env.run(work) as Promise<T>;

  it('a cancelled drain reports what is left; attempts under way are delivered', async () => {
    const client = await h.newClient(receiver.url);
    const gate = closeGate(receiver);
    await h.publishAll(client, 'begun', 3);
    const result = inActivity(() => createActivities(h.deps).drain(client));
    await until('three POSTs are under way', () => receiver.received.length === 3);
    env.cancel();
    assert.equal((await result).owed, 3);
    gate.open();
    await h.noneOwed(client);
    assert.equal(receiver.received.length, 3);
  });

  it('a sweep reports its progress to Temporal, also while one of its steps takes long', async () => {
    const heartbeat = once(env, 'heartbeat');
    const client = await h.newClient(receiver.url);
    await setPaused(h.db, client, true);
    await h.publishAll(client, 'paused', 1);
    const zrange = async () => {
      await heartbeat;
      return [];
    };
    const redis = Object.assign(Object.create(h.db.redis), { zrange });
    const sweeping = inActivity(() =>
      createActivities({ ...h.deps, db: { ...h.db, redis } }).sweepOwedClients(),
    );
    assert.deepEqual(await heartbeat, [{ looked: 1, woken: 0, replaced: 0 }]);
    await sweeping;
  });
});
