import assert from 'node:assert/strict';
import type { ClusterNode, RedisCluster } from '../../local/redisCluster.js';
import { createLogger } from '../../src/log.js';
import { closeDb, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { runPipeline } from '../../src/redis/connection/pipeline.js';
import { slotOf } from '../../src/redis/connection/slots.js';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import { announceClaims, indexedClients, isIndexed } from '../../src/redis/owed/owedClients.js';
import { newNonce } from '../../src/redis/owed/turn.js';
import { moveSlot, moveSlotsAtOnce, startOwnCluster } from '../redisCluster.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  newDeliveryClient,
  ok,
  whatIsOwed,
} from './deliveryClient.js';
import { untilRedisAnswers } from './untilRedisAnswers.js';

const log = createLogger('silent', 'test');

describe('A Redis Cluster', () => {
  let cluster: RedisCluster;

  before(async function () {
    this.timeout(60_000);
    cluster = await startOwnCluster();
  });
  after(async () => {
    closeDeliveryClients();
    await cluster?.stop();
  });

  const newClient = (): Promise<DeliveryClient> => newDeliveryClient({}, cluster.url);
  const slotOfClient = ({ db, clientToken }: DeliveryClient): number => slotOf(db.client(clientToken).base);

  /** A client of each node. */
  async function clientOfEachNode(): Promise<{ client: DeliveryClient; node: ClusterNode }[]> {
    const found = new Map<string, { client: DeliveryClient; node: ClusterNode }>();
    while (found.size < 3) {
      const client = await newClient();
      const node = await cluster.ownerOf(slotOfClient(client));
      if (!found.has(node.id)) found.set(node.id, { client, node });
    }
    return [...found.values()];
  }

  it('keeps the keys of a client together on one node, and claims, takes and settles there', async () => {
    for (const { client, node } of await clientOfEachNode()) {
      const owed = await client.owe('vid');
      assert.equal((await client.attempt(owed, { ok: false })).outcome, 'retry');
      const { base } = client.db.client(client.clientToken);
      const keys = (await node.redis.keys('*')).filter((key) => key.startsWith(base));
      assert.ok(keys.length > 5, keys.join());
      for (const other of cluster.nodes.filter(({ id }) => id !== node.id)) {
        assert.deepEqual(
          (await other.redis.keys('*')).filter((key) => key.startsWith(base)),
          [],
        );
      }
    }
  });

  it('answers a pipeline over keys of every node, in the order asked, each error with its command', async () => {
    const clients = await clientOfEachNode();
    const { redis } = (clients[0] as { client: DeliveryClient }).client.db;
    const keys = clients.map(({ client }) => `${client.db.prefix}{${client.clientToken}}`);
    const commands = redis.pipeline();
    for (const [i, key] of keys.entries()) commands.set(key, i).get(key);
    assert.deepEqual(await runPipeline(commands), ['OK', '0', 'OK', '1', 'OK', '2']);
    const wrong = redis
      .pipeline()
      .get(keys[0] as string)
      .hgetall(keys[1] as string)
      .get(keys[2] as string);
    const answers = (await wrong.exec()) ?? [];
    assert.deepEqual(
      [answers[0], answers[2]],
      [
        [null, '0'],
        [null, '2'],
      ],
    );
    assert.match(String(answers[1]?.[0]), /WRONGTYPE/);
    assert.deepEqual(await redis.pipeline().exec(), []);
  });

  it('spreads the index of clients that are owed something, and finds each of them', async () => {
    const client = await newClient();
    const { db } = client;
    const tokens = Array.from({ length: 200 }, (_, i) => `SITE-${i}`);
    await Promise.all(tokens.map((token) => announceClaims(db, token)));
    const found: string[] = [];
    for await (const page of indexedClients(db)) found.push(...page);
    assert.deepEqual(found.sort(), tokens.sort());
    assert.equal(await isIndexed(db, 'SITE-7'), true);
    assert.equal(await isIndexed(db, 'SITE-200'), false);
    for (const { redis } of cluster.nodes) {
      const parts = (await redis.keys('*')).filter((key) => key.startsWith(`${db.prefix}owed-clients:`));
      assert.ok(parts.length > 20, `${parts.length} on one node`);
    }
  });

  it('finds clients in the index of a former single Redis, whose keys were copied', async () => {
    const { db } = await newClient();
    await db.redis.zadd(db.global.owedClients, Date.now(), 'SITE-OLD');
    assert.equal(await isIndexed(db, 'SITE-OLD'), true);
    const found: string[] = [];
    for await (const page of indexedClients(db)) found.push(...page);
    assert.deepEqual(found, ['SITE-OLD']);
  });

  it('confirms writes to disk node by node, for the clients of each', async () => {
    const clients = await clientOfEachNode();
    const asked = async ({ redis }: ClusterNode): Promise<number> =>
      Number(/cmdstat_waitaof:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0);
    for (const { node } of clients) await node.redis.config('SET', 'appendfsync', 'everysec');
    try {
      for (const { client, node } of clients) {
        const before = await Promise.all(clients.map((one) => asked(one.node)));
        await Promise.all(Array.from({ length: 20 }, (_, i) => client.owe(`vid-${i}`)));
        const after = await Promise.all(clients.map((one) => asked(one.node)));
        assert.deepEqual(
          after.map((count, i) => count > (before[i] ?? 0)),
          clients.map((one) => one.node.id === node.id),
        );
      }
    } finally {
      for (const { node } of clients) await node.redis.config('SET', 'appendfsync', 'always');
    }
  });

  it('is opened at the first try, and each node answers then', async () => {
    for (let i = 0; i < 20; i++) {
      const db = openDb({ url: cluster.url, prefix: 'test-', log });
      let closed = 0;
      db.redis.on('close', () => closed++);
      try {
        await waitForRedis(db, 10_000);
        assert.equal(closed, 0, `opening ${i}`);
      } finally {
        closeDb(db);
      }
    }
  });

  it('refuses a script as a whole while its slot is moved key by key, and runs it once the slot has moved', async () => {
    const client = await newClient();
    const [from, to] = await ownerAndAnother(client);
    const owed = await client.owe('first');
    const refused = async (): Promise<number> => {
      const stats = await from.redis.info('commandstats');
      return Number(/cmdstat_fcall:.*rejected_calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    const refusedBefore = await refused();
    let moved = 0;
    let claim: Promise<unknown> | undefined;
    const onKeys = async () => {
      if (++moved !== 2) return;
      claim = client.owe('second');
      // The node refuses it now: it is asked again and again, and finds all of the keys in the end.
      while ((await refused()) === refusedBefore) await new Promise((resolve) => setTimeout(resolve, 5));
    };
    await moveSlot(slotOfClient(client), from, to, { keysAtOnce: 1, onKeys });
    assert.ok(moved > 2);
    await claim;
    assert.equal((await client.attempt(owed, { ok: true })).outcome, 'delivered');
    const { waiting } = await whatIsOwed(client);
    assert.deepEqual(Object.keys(waiting), ['second']);
  });

  for (const [how, move] of [
    ['key by key', (slot: number, from: ClusterNode, to: ClusterNode) => moveSlot(slot, from, to)],
    [
      'as a whole',
      (slot: number, from: ClusterNode, to: ClusterNode) => moveSlotsAtOnce([slot, slot], from, to),
    ],
  ] as const) {
    it(`loses and repeats nothing of a client whose slot is moved ${how}, again and again, under load`, async () => {
      const client = await newClient();
      const { db, clientToken } = client;
      const slot = slotOfClient(client);
      let isMoving = true;
      const delivered: string[] = [];
      const moving = (async () => {
        for (let i = 1; i <= 10; i++) {
          await move(slot, ...(await ownerAndAnother(client)));
          while (delivered.length < i * 10) await new Promise((resolve) => setTimeout(resolve, 5));
        }
      })().finally(() => {
        isMoving = false;
      });
      const working = Array.from({ length: 4 }, async (_, worker) => {
        for (let i = 0; isMoving; i++) {
          delivered.push(...(await deliverOne(client, `vid-${worker}-${i % 5}`)));
        }
      });
      await Promise.all([moving, ...working]);
      assert.ok(delivered.length > 20, `${delivered.length} delivered`);
      for (const id of delivered) {
        const record = await getNotification(db, clientToken, id);
        assert.deepEqual([record?.state, record?.attempts.length], ['delivered', 1]);
      }
      const { owed, flight, notifications } = db.client(clientToken);
      assert.equal(await db.redis.exists(owed, flight), 0);
      assert.equal(await db.redis.zcard(notifications), delivered.length);
    });
  }

  /** Claims, takes and settles as the service does: what is not answered in time is asked again. */
  async function deliverOne(client: DeliveryClient, platformId: string): Promise<string[]> {
    const event = client.event({ platformId });
    const nonce = newNonce();
    await untilRedisAnswers(() => client.claim(event));
    const { taken } = await untilRedisAnswers(() => client.turn({ nonce, isRepeat: true, most: 1 }));
    // Whoever has a free place sends the oldest due: it may be another's.
    for (const one of taken) {
      const verdicts = [client.verdict(one, ok)];
      const { settled } = await untilRedisAnswers(() => client.turn({ verdicts }));
      assert.equal(settled[0]?.outcome, 'delivered');
    }
    return taken.map(({ notificationId }) => notificationId);
  }

  async function ownerAndAnother(client: DeliveryClient): Promise<[ClusterNode, ClusterNode]> {
    const owner = await cluster.ownerOf(slotOfClient(client));
    return [owner, cluster.nodes.find(({ id }) => id !== owner.id) as ClusterNode];
  }
});
