/** Who waits for whom: one client's events never hold another's, and what changed meanwhile counts. */
import assert from 'node:assert/strict';
import { deliverEvents } from '../../src/delivery/deliver.js';
import type { Db } from '../../src/redis/connection/db.js';
import { claimEvents } from '../../src/redis/owed/claim.js';
import { setClient } from '../../src/redis/records/clients.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { changeRegistration } from '../../src/redis/records/registrations.js';
import { begun, closeGate, type Receiver, startReceiver, until } from '../receiver.js';
import { afterTest, dbWith, opened, useOpened } from '../servers.js';
import { arrivedEvent, type Settings, startHarness, useHarness } from '../service.js';

describe('A retry comes at its time', () => {
  const ofSuite = useOpened();
  const begin = async (settings: Settings) => {
    const h = ofSuite(await startHarness({ RETRY_SCHEDULE_SECONDS: '7', ...settings }));
    await h.startWorker({ retries: 5, upkeep: 5 });
    // They are closed first, which ends the attempt that hangs.
    const receivers = [ofSuite(await startReceiver()), ofSuite(await startReceiver())] as const;
    return { h, receivers };
  };
  const failsOnce = (receiver: Receiver, asset: string) => {
    receiver.answer = ({ body }) =>
      body.includes(`"${asset}"`) && receiver.idsOf(asset).length === 1 ? 503 : 200;
  };
  /** @returns how long after the first attempt */
  async function cameAtItsTime(receiver: Receiver, asset: string): Promise<number> {
    const [first, second] = await until('it is tried again', () => {
      const both = receiver.received.filter(({ body }) => body.includes(`"${asset}"`));
      return both.length === 2 && both;
    });
    const tookMs = (second?.at ?? 0) - (first?.at ?? 0);
    assert.ok(tookMs >= 7000 && tookMs < 20_000, `after ${tookMs} ms`);
    return tookMs;
  }

  async function besideOneAtItsRate(): Promise<void> {
    // A lease of 6 s: Temporal times the retry, no hand.
    const { h, receivers } = await begin({ WORKFLOWS_PER_SECOND: '100', ATTEMPT_TIMEOUT_SECONDS: '1' });
    const [limited, other] = receivers;
    const limitedClient = await h.newClient(limited.url);
    await setClient(h.db, limitedClient, { max_per_second: 1 });
    for (let i = 0; i < 30; i++) await h.publish({ client: limitedClient, asset: `limited-${i}` });
    await until('its first is sent', () => limited.received.length > 0);
    failsOnce(other, 'other');
    await h.publish({ client: await h.newClient(other.url), asset: 'other' });
    const most = 8 + (await cameAtItsTime(other, 'other')) / 1000;
    assert.ok(limited.received.length < most, `${limited.received.length} of the limited came before it`);
  }

  async function inGroup(): Promise<void> {
    const { h, receivers } = await begin({ WORKFLOWS_PER_SECOND: '1', ATTEMPT_TIMEOUT_SECONDS: '60' });
    const [slow, other] = receivers;
    slow.answer = ({ body }) =>
      body.includes('slow') ? 'hang' : { status: 503, headers: { 'retry-after': '3600' } };
    const [slowClient, later] = await Promise.all([h.newClient(slow.url), h.newClient(slow.url)]);
    const client = await h.newClient(other.url);
    failsOnce(other, 'other');
    // What a process may start at once is used up.
    await h.publish({ client, asset: 'alone' });
    await Promise.all([
      h.publish({ client: slowClient, asset: 'slow' }),
      h.publish({ client: later, asset: 'later' }),
      h.publish({ client, asset: 'other' }),
    ]);
    await cameAtItsTime(other, 'other');
  }

  let both: [limited: Promise<void>, group: Promise<void>];
  before(() => {
    both = [begun(besideOneAtItsRate()), begun(inGroup())];
  });
  it('while another client, at its rate, has more events than there are slots for activities', () => both[0]);
  it('in a group with a slow event of another client, and with one whose retry is an hour later', () =>
    both[1]);
});

describe('An event in flight in another process', () => {
  const scene = useHarness();
  const takenElsewhere = async () => {
    const { h, client } = scene;
    const event = arrivedEvent(client, 'a');
    const taking = { nonce: 'other', most: 16 };
    const { taken } = await claimEvents(h.db, client, [event], taking);
    assert.equal(taken.length, 1);
    return { ...event, claim: 1 };
  };

  it('is looked up once a second', async () => {
    const { h } = scene;
    const event = await takenElsewhere();
    let scripts = 0;
    const call = (name: string, args: string[]) => {
      scripts++;
      return h.db.redis.call(name, args);
    };
    const [outcome] = await deliverEvents({ ...h.deps, db: dbWith(h.db, { call }) }, [event], 3000);
    assert.equal(outcome?.state, 'waiting');
    assert.ok(scripts <= 10, `${scripts} scripts`);
  });

  it('is sent by its own workflow once the lease of that process has ended', async () => {
    const event = await takenElsewhere();
    scene.h.skip(scene.h.db.settings.leaseMs + 1);
    const [outcome] = await deliverEvents(scene.h.deps, [event], 30_000);
    assert.equal(outcome?.state, 'delivered');
  });

  it('is claimed again with the others of its group, if all claims are lost', async () => {
    const { h, client } = scene;
    const events = Array.from({ length: 40 }, (_, i) => ({ ...arrivedEvent(client, `a-${i}`), claim: 1 }));
    let writes = 0;
    const durably: Db['durably'] = (write) => {
      writes++;
      return h.db.durably(write);
    };
    const outcomes = await deliverEvents({ ...h.deps, db: { ...h.db, durably } }, events, 10_000);
    assert.ok(outcomes.every(({ state }) => state === 'delivered'));
    assert.equal(writes, 1);
  });
});

describe('An attempt that waits for its connection', () => {
  it('is not sent after its client was paused, nor to its old URL', async () => {
    const [h, receiver, next] = await Promise.all([
      startHarness({ connectionsPerOrigin: 1 }),
      startReceiver(),
      startReceiver(),
    ]);
    opened(h);
    const gate = closeGate(receiver);
    afterTest(gate.open);
    await h.publish({ client: await h.newClient(receiver.url), asset: 'first' });
    await until('the connection is taken', () => receiver.received.length === 1);
    const [paused, moved] = [await h.newClient(receiver.url), await h.newClient(receiver.url)];
    for (const client of [paused, moved]) await h.publish({ client, asset: 'second' });
    await setPaused(h.db, paused, true);
    await changeRegistration(h.db, moved, next.url);
    await until('one waits again', async () => (await h.endpoint(paused)).inFlight === 0);
    await until('the other is sent to the new URL', () => next.received.length === 1);
    gate.open();
    assert.deepEqual([receiver.received.length, (await h.endpoint(paused)).owed], [1, 1]);
  });
});
