import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { isRedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { setClient } from '../../src/redis/records/clients.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { type Proxy as Line, startProxy } from '../proxy.js';
import { type Receiver, startGate, startReceiver, until } from '../receiver.js';
import { describeWithOneRedis, servers } from '../servers.js';
import { type Harness, startHarness } from '../service.js';

const assetsOf = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name}-${i}`);

describe("A client's places are a queue", () => {
  let h: Harness;
  let receiver: Receiver;
  let client: string;

  before(async () => {
    h = await startHarness();
    await h.startWorker();
  });
  after(() => h.close());
  beforeEach(async () => {
    receiver = await startReceiver();
    client = await h.newClient(receiver.url);
  });
  afterEach(() => receiver.close());

  const publishAll = (assets: string[], priority: 'live' | 'backfill' = 'live') =>
    Promise.all(assets.map((asset) => h.publish({ client, asset, priority })));
  const nothingOwed = () =>
    until('nothing is owed', async () => (await getEndpoint(h.db, client)).owed === 0, 60_000);

  /** Takes all of the client's places with POSTs that are answered once the gate is open. */
  async function fillPlaces(places: number) {
    const gate = startGate();
    receiver.answer = async () => {
      await gate.closed;
      return 200;
    };
    await setClient(h.db, client, { maxInFlight: places });
    await publishAll(assetsOf('holds', places));
    await until('all places are taken', () => receiver.received.length === places);
    return gate;
  }

  it('serve both live events and backfill when both wait', async () => {
    const gate = await fillPlaces(4);
    await publishAll(assetsOf('backfill', 40), 'backfill');
    await publishAll(assetsOf('live', 40));
    gate.open();
    await nothingOwed();
    const order = receiver.received
      .slice(4)
      .map(({ body }) => (body.includes('"live-') ? 'live' : 'backfill'));
    // Every fourth place is backfill's, however many live events there are.
    const whileBothWait = order.slice(0, 40);
    const live = whileBothWait.filter((one) => one === 'live').length;
    assert.ok(live >= 24 && live <= 36, `${live} live of the first 40`);
  });

  it('work although another client has a broken key', async () => {
    const broken = await h.newClient(receiver.url);
    await h.db.redis.set(h.db.client(broken).owed, 'no hash');
    const settled = await Promise.allSettled([
      h.publish({ client: broken, asset: 'vid-1' }),
      h.publish({ client, asset: 'vid-1' }),
    ]);
    assert.deepEqual(
      settled.map(({ status }) => status),
      ['rejected', 'fulfilled'],
    );
    await until('received', () => receiver.idsOf('vid-1').length === 1);
    await h.db.redis.del(h.db.client(broken).owed);
  });
});

describe("A client's places over two processes", () => {
  let both: [Harness, Harness];
  let receiver: Receiver;
  let client: string;

  before(async () => {
    const first = await startHarness();
    both = [first, await startHarness({ KEY_PREFIX: first.db.prefix, TASK_QUEUE: first.taskQueue })];
    await Promise.all(both.map((h) => h.startWorker()));
  });
  after(() => Promise.all(both.map((h) => h.close())));
  beforeEach(async () => {
    receiver = await startReceiver();
    client = await both[0].newClient(receiver.url);
  });
  afterEach(() => receiver.close());

  const publishAll = (assets: string[]) =>
    Promise.all(assets.map((asset, i) => (both[i % 2] as Harness).publish({ client, asset })));
  const nothingOwed = () =>
    until('nothing is owed', async () => (await getEndpoint(both[0].db, client)).owed === 0, 60_000);

  it('deliver each of 600 events once, in the order in which they came, never more than 16 at a time', async () => {
    receiver.delayMs = 5;
    const assets = assetsOf('vid', 600);
    // Both take what comes; the oldest of a process wait while the other's are newer.
    for (let i = 0; i < assets.length; i += 20) await publishAll(assets.slice(i, i + 20));
    await nothingOwed();
    assert.equal(receiver.received.length, 600);
    assert.equal(receiver.mostInFlight, 16);
    const order = receiver.received.map(({ body }) => JSON.parse(body).platform_id as string);
    for (const [i, asset] of assets.entries()) {
      const place = order.indexOf(asset);
      assert.ok(Math.abs(place - i) <= 64, `${asset} came as number ${place}`);
    }
  });

  it('allow at most max_in_flight POSTs without an answer', async () => {
    await setClient(both[0].db, client, { maxInFlight: 3 });
    receiver.delayMs = 20;
    await publishAll(assetsOf('vid', 60));
    await nothingOwed();
    assert.deepEqual([receiver.received.length, receiver.mostInFlight], [60, 3]);
  });

  it('allow at most max_per_second', async () => {
    await setClient(both[0].db, client, { maxPerSecond: 20 });
    const before = Date.now();
    await publishAll(assetsOf('vid', 30));
    await nothingOwed();
    // Unused places are kept for a twentieth of a second: one more place.
    const soonestMs = ((30 - 1 - 1) * 1000) / 20;
    const tookMs = (receiver.received.at(-1)?.at ?? 0) - before;
    assert.ok(tookMs >= soonestMs, `30 in ${tookMs} ms`);
    assert.equal(receiver.received.length, 30);
  });

  it('send a second event of an asset, claimed by the other process, when the first has been sent', async () => {
    const gate = startGate();
    receiver.answer = async () => {
      await gate.closed;
      return 200;
    };
    await both[0].publish({ client, asset: 'a' });
    await until('the first is sent', () => receiver.received.length === 1);
    const second = await both[1].publish({ client, asset: 'a' });
    const releasedAt = Date.now();
    gate.open();
    const { at } = await until('the second arrives', () => receiver.received[1]);
    assert.ok(at - releasedAt < both[0].deps.settings.leaseMs / 3, `after ${at - releasedAt} ms`);
    await until('nothing is owed', async () => (await getEndpoint(both[0].db, client)).owed === 0);
    assert.deepEqual(receiver.idsOf('a')[1], second.id);
    assert.equal(receiver.received.length, 2);
  });
});

describe('Claims by one process, deliveries by another', () => {
  let h: Harness;
  let receiver: Receiver;

  before(async () => {
    h = await startHarness({}, 'worker');
    receiver = await startReceiver();
  });
  after(async () => {
    await h.close();
    await receiver.close();
  });

  it('an event is answered without a worker, and delivered once there is one', async () => {
    const client = await h.newClient(receiver.url);
    const { id, kind } = await h.publish({ client, asset: 'a' });
    assert.equal(kind, 'queued');
    const handle = await h.workflowOf(client, id);
    assert.equal(receiver.received.length, 0);
    await h.startWorker();
    assert.equal((await handle.result()).state, 'delivered');
    assert.deepEqual(receiver.idsOf('a'), [id]);
  });
});

describeWithOneRedis('When the answer of Redis is lost', () => {
  let line: Line;
  let h: Harness;
  let receiver: Receiver;

  before(async () => {
    line = await startProxy(servers().redisUrl);
    h = await startHarness({ REDIS_URL: line.url });
    receiver = await startReceiver();
  });
  after(async () => {
    await h.close();
    await receiver.close();
    await line.close();
  });

  it('to a claim: the assets that it took are sent when the event is repeated, long before a lease could end', async () => {
    const client = await h.newClient(receiver.url);
    await h.publish({ client, asset: 'before' });
    await until('nothing is owed', async () => (await getEndpoint(h.db, client)).owed === 0);
    receiver.received.length = 0;
    const event = { client, asset: 'lost-claim', eventId: 'an-1', segments: ['x'] };
    const lost = line.cutBeforeReply('lost-claim');
    const givenAt = Date.now();
    await assert.rejects(h.publish(event), isRedisUnavailable);
    await lost;
    await until('it is taken', () =>
      h.publish(event).then(
        ({ kind }) => kind === 'queued',
        () => false,
      ),
    );
    const { at } = await until('it is sent', () => receiver.received[0]);
    assert.ok(at - givenAt < h.deps.settings.leaseMs / 2, `after ${at - givenAt} ms`);
    await until('nothing is owed', async () => (await getEndpoint(h.db, client)).owed === 0);
    assert.equal(receiver.received.length, 1);
  });

  it('to a turn: it is repeated, and the assets that it took are sent once, long before a lease could end', async () => {
    const client = await h.newClient(receiver.url);
    await setClient(h.db, client, { maxInFlight: 1 });
    // Redis then has every script: what is lost below is the answer to one that has run.
    await h.publish({ client, asset: 'before' });
    await until('nothing is owed', async () => (await getEndpoint(h.db, client)).owed === 0);
    receiver.received.length = 0;
    const gate = startGate();
    receiver.answer = async () => {
      await gate.closed;
      return 200;
    };
    await h.publish({ client, asset: 'holds' });
    await until('the place is taken', () => receiver.received.length === 1);
    await h.publish({ client, asset: 'lost-answer' });
    // The turn that settles the first and takes the next.
    const lost = line.cutBeforeReply('holds');
    const releasedAt = Date.now();
    gate.open();
    await lost;
    const { at } = await until('the next is sent', () => receiver.received[1]);
    assert.ok(at - releasedAt < h.deps.settings.leaseMs / 2, `after ${at - releasedAt} ms`);
    await until('nothing is owed', async () => (await getEndpoint(h.db, client)).owed === 0);
    assert.deepEqual(
      receiver.received.map(({ body }) => body.includes('"holds"')),
      [true, false],
    );
  });

  it('to verdicts, for 7 s: what was answered 200 is posted once', async () => {
    const client = await h.newClient(receiver.url);
    receiver.received.length = 0;
    const gate = startGate();
    receiver.answer = async () => {
      await gate.closed;
      return 200;
    };
    await Promise.all(assetsOf('vid', 8).map((asset) => h.publish({ client, asset })));
    await until('all are under way', () => receiver.received.length === 8);
    line.forget();
    gate.open();
    await sleep(7000);
    line.reach();
    await until(
      'nothing is owed',
      async () => (await getEndpoint(h.db, client).catch(() => undefined))?.owed === 0,
    );
    assert.equal(receiver.received.length, 8);
  });
});
