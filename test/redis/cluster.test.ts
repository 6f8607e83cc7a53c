import assert from 'node:assert/strict';
import type { ClusterNode } from '../../local/redisCluster.js';
import { closeDb, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { slotOf } from '../../src/redis/connection/keys.js';
import { servesCalls, watchStore } from '../../src/redis/connection/needs.js';
import { createUpdateWaits, feedBeginning } from '../../src/redis/notifications/updates.js';
import { adoptIndex, announceClaims, indexedClients } from '../../src/redis/owed/owedClients.js';
import { mintAccessToken } from '../../src/redis/records/accessTokens.js';
import { createAccount, defaultScopes } from '../../src/redis/records/accounts.js';
import { moveSlot, startOwnCluster } from '../ownRedis.js';
import { whileStopped } from '../program.js';
import { until } from '../receiver.js';
import { afterTest, connectDb, opened, openForSuite, settings } from '../servers.js';
import { keptLog } from '../service.js';
import { type DeliveryClient, newDeliveryClient } from './deliveryClient.js';

describe('A Redis Cluster', () => {
  const cluster = openForSuite(() => startOwnCluster());

  const newClient = (): Promise<DeliveryClient> => newDeliveryClient({}, cluster.url);
  const slotOfClient = ({ db, clientToken }: DeliveryClient): number => slotOf(db.client(clientToken).base);

  async function clientOfEachNode(): Promise<{ client: DeliveryClient; node: ClusterNode }[]> {
    const found = new Map<string, { client: DeliveryClient; node: ClusterNode }>();
    while (found.size < 3) {
      const client = await newClient();
      const node = await cluster.ownerOf(slotOfClient(client));
      if (!found.has(node.id)) found.set(node.id, { client, node });
    }
    return [...found.values()];
  }

  it('spreads the index of clients that are owed something, and finds each of them', async () => {
    const client = await newClient();
    const { db } = client;
    const tokens = Array.from({ length: 200 }, (_, i) => `SITE-${i}`);
    await Promise.all(tokens.map((token) => db.redis.hset(db.client(token).client, 'account_id', 'a')));
    await Promise.all(tokens.map((token) => announceClaims(db, token)));
    const found: string[] = [];
    for await (const page of indexedClients(db, assert.ifError)) found.push(...page);
    assert.deepEqual(found.sort(), tokens.sort());
    for (const { redis } of cluster.nodes) {
      const parts = (await redis.keys('*')).filter((key) => key.startsWith(`${db.prefix}owed-clients:`));
      assert.ok(parts.length > 20, `${parts.length} on one node`);
    }
  });

  it('finds clients in the index of a former single Redis, whose keys were copied', async () => {
    const { db, clientToken } = await newClient();
    await db.redis.zadd(db.global.owedClients, Date.now(), clientToken);
    await adoptIndex(db);
    const found: string[] = [];
    for await (const page of indexedClients(db, assert.ifError)) found.push(...page);
    assert.deepEqual(found, [clientToken]);
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
        const wereAsked = after.map((count, i) => count > (before[i] ?? 0));
        assert.deepEqual(
          wereAsked,
          clients.map((one) => one.node.id === node.id),
        );
      }
    } finally {
      for (const { node } of clients) await node.redis.config('SET', 'appendfsync', 'always');
    }
  });

  it('has each account that was created with the secret that was told', async () => {
    const { db } = await newClient();
    for (let i = 0; i < 12; i++) {
      const { isNew, client_id, client_secret } = await db.durably((own) =>
        createAccount(own, { name: `Example ${i}` }),
      ).safe;
      const told = { clientId: client_id, clientSecret: client_secret };
      const rate = { ttlSeconds: 60, perSecond: 20 };
      const { outcome } = await mintAccessToken(db, told, defaultScopes, rate);
      assert.deepEqual([isNew, outcome], [true, 'minted'], client_id);
    }
  });

  it('is opened at the first try, and each node answers then', async () => {
    for (let i = 0; i < 20; i++) {
      const db = opened(openDb({ url: cluster.url, prefix: 'test-', settings, log: keptLog().log }), closeDb);
      let closed = 0;
      db.redis.on('close', () => closed++);
      await waitForRedis(db, 10_000);
      assert.equal(closed, 0, `opening ${i}`);
    }
  });

  it('tells once that a node hangs, while its connection is made again and again, and once that it is back', async () => {
    const { log, lines } = keptLog('info');
    const [hanging, other] = await clientOfEachNode();
    const { clientToken, db: its } = other?.client ?? assert.fail();
    const db = opened(await connectDb(cluster.url, its.prefix, { log }), closeDb);
    const { signal } = new AbortController();
    const waits = createUpdateWaits(db);
    const waiting = waits.next(clientToken, feedBeginning, 20_000, signal);
    await until('it waits', () => waits.waiting() === 1);
    const { pid } = hanging?.node.server ?? assert.fail();
    let ended = 0;
    db.redis.on('-node', () => ended++);
    const asking = setInterval(
      () => Promise.allSettled(db.nodes.primaries().map((node) => node.echo(''))),
      100,
    );
    afterTest(() => clearInterval(asking));
    await whileStopped(pid, async () => {
      await until('its connection has ended again and again', () => ended > 2);
      assert.deepEqual(db.health.reasons(), ['timeout']);
    });
    await until('it is back', () => db.health.reasons().length === 0);
    const told = lines.map(({ msg }) => String(msg).replace(/:.*/, ''));
    assert.deepEqual(told, ['redis is away', 'redis is back']);
    assert.equal(await waiting, true, 'who waits for updates looks again');
  });

  it('serves while a single node refuses this process, which is told once, and once that the node no longer does', async () => {
    const { log, lines } = keptLog('info');
    const db = opened(await connectDb(cluster.url, 'test-', { log }), closeDb);
    watchStore(db, 50);
    const { redis } = cluster.nodes[0] ?? assert.fail();
    await redis.config('SET', 'requirepass', 'other');
    await redis.call('CLIENT', 'KILL', 'TYPE', 'normal');
    await until('it is known', () => db.health.reasons().includes('credentials'));
    await servesCalls(db).finally(() => redis.config('SET', 'requirepass', ''));
    await until('it is over', () => db.health.reasons().length === 0);
    // The kill may break off an answer, which is told too.
    const told = lines.map(({ msg }) => String(msg)).filter((msg) => msg.includes('refuses'));
    assert.deepEqual(told, ['Redis refuses the user or the password.', 'redis no longer refuses this']);
  });

  it('refuses a script as a whole while its slot is moved key by key, and runs it once the slot has moved', async () => {
    const client = await newClient();
    const from = await cluster.ownerOf(slotOfClient(client));
    const to = cluster.nodes.find(({ id }) => id !== from.id) ?? assert.fail();
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
    assert.equal((await client.attempt(owed, { ok: true })).result, 'delivered');
    assert.deepEqual(await client.db.redis.hkeys(client.db.client(client.clientToken).owed), ['second']);
  });
});
