import assert from 'node:assert/strict';
import { isRedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { forgetAsset } from '../../src/redis/notifications/decisions.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { startProxy } from '../proxy.js';
import { closeGate, startReceiver, until } from '../receiver.js';
import {
  connectDb,
  describeWithOneRedis,
  forSuite,
  forTest,
  openForSuite,
  servers,
  useOpened,
} from '../servers.js';
import { type Harness, startHarness, startWithWorker } from '../service.js';

const assetsOf = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name}-${i}`);

describe("A client's places over two processes", () => {
  const first = openForSuite(() => startWithWorker());
  const second = openForSuite(() =>
    startWithWorker({ KEY_PREFIX: first.db.prefix, TASK_QUEUE: first.taskQueue }),
  );
  const both = [first, second] as const;
  const receiver = forTest(() => startReceiver());
  let client: string;

  beforeEach(async () => {
    client = await both[0].newClient(receiver.url);
  });

  it('deliver each of 600 events once, in the order in which they came, never more than 16 at a time', async () => {
    receiver.delayMs = 5;
    const assets = assetsOf('vid', 600);
    // Both take what comes; the oldest of a process wait while the other's are newer.
    for (let from = 0; from < assets.length; from += 20) {
      const some = assets.slice(from, from + 20);
      await Promise.all(some.map((asset, i) => (both[i % 2] as Harness).publish({ client, asset })));
    }
    await both[0].noneOwed(client);
    assert.equal(receiver.received.length, 600);
    const most = receiver.mostInFlight;
    assert.ok(most > 8 && most <= 16, `${most} at a time`);
    const order = receiver.received.map(({ body }) => JSON.parse(body).platform_id as string);
    for (const [i, asset] of assets.entries()) {
      const place = order.indexOf(asset);
      assert.ok(Math.abs(place - i) <= 64, `${asset} came as number ${place}`);
    }
  });
});

describeWithOneRedis('When the answer of Redis is lost', () => {
  const ofSuite = useOpened();
  const line = forSuite(async () => ofSuite(await startProxy(servers().redisUrl)));
  const h = forSuite(async () =>
    ofSuite(await startHarness({ REDIS_URL: line.url }, 'all', { commandTimeoutMs: 2_000 })),
  );
  const receiver = forSuite(() => startReceiver());
  let client: string;

  beforeEach(async () => {
    receiver.answer = () => 200;
    client = await h.newClient(receiver.url);
    // Redis then has every script: what is lost below is the answer to one that has run.
    await h.publish({ client, asset: 'before' });
    await h.noneOwed(client);
    receiver.received.length = 0;
  });

  it('to a claim: the assets that it took are sent when the event is repeated, long before a lease could end', async () => {
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
    assert.ok(at - givenAt < h.db.settings.leaseMs / 2, `after ${at - givenAt} ms`);
    await h.noneOwed(client);
    assert.equal(receiver.received.length, 1);
  });

  it('to a claim for a while: a repeat after a forget is not answered by it', async () => {
    const elsewhere = await connectDb(servers().redisUrl, h.prefix);
    const event = { client, asset: 'forgotten', eventId: 'an-1', segments: ['x'] };
    line.slow({ latencyMs: 300 });
    const first = h.publish(event);
    await until('it is claimed', async () => (await getEndpoint(elsewhere, client)).owed === 1);
    await forgetAsset(elsewhere, client, event.asset);
    const again = h.publish(event);
    assert.notEqual((await first).id, (await again).id);
    line.slow({});
    await h.noneOwed(client);
    assert.equal(receiver.idsOf(event.asset).at(-1), (await again).id);
    elsewhere.redis.disconnect();
  });

  it('to verdicts, again and again: what was answered 200 is posted once', async () => {
    const gate = closeGate(receiver);
    await Promise.all(assetsOf('vid', 8).map((asset) => h.publish({ client, asset })));
    await until('all are under way', () => receiver.received.length === 8);
    const { redis } = h.db;
    const send = redis.sendCommand;
    let lost = 0;
    redis.sendCommand = (command, ...rest) => {
      if (String(command.args[0]).startsWith('turn_')) command.promise.catch(() => lost++);
      return send.call(redis, command, ...rest);
    };
    line.forget();
    gate.open();
    await until('three answers were lost', () => lost >= 3);
    redis.sendCommand = send;
    line.reach();
    await h.noneOwed(client);
    assert.equal(receiver.received.length, 8);
  });
});
