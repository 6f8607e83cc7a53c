/** Slots of a Redis Cluster that move, and primaries that are killed or hang, while events are accepted and delivered. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ClusterNode, type RedisCluster, startCluster } from '../../local/redisCluster.js';
import { slotOf } from '../../src/redis/connection/keys.js';
import { isRedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { moveSlot, moveSlotsAtOnce } from '../ownRedis.js';
import { whileStopped } from '../program.js';
import { startReceiver, until } from '../receiver.js';
import { startSentinels } from '../redisSentinels.js';
import { forTest, newFolder, opened, servers } from '../servers.js';
import { type Harness, startHarness } from '../service.js';

/** A busy machine needs longer than the seconds of docs/reliability.md: Sentinels do nothing for 30 s after a pause of their own. */
const recoveredWithinMs = 90_000;

type Published = ReturnType<typeof publishAllTheTime>;

/** Publishes for each client, one event after the other, each of an asset of its own and again until it is answered. */
function publishAllTheTime(h: Harness, clients: readonly string[]) {
  let isGoing = true;
  const lastSentAt = new Map<string, number>();
  /** Every event that was answered `queued`, with its client. */
  const queued: { client: string; id: string }[] = [];
  const publishing = clients.map(async (client, n) => {
    for (let i = 0; isGoing; i++) {
      const event = { client, asset: `vid-${n}-${i}`, eventId: `event-${n}-${i}`, segments: ['a'] };
      const sentAt = Date.now();
      for (;;) {
        try {
          const { id, kind } = await h.publish(event);
          if (kind === 'queued') queued.push({ client, id });
          lastSentAt.set(client, sentAt);
          break;
        } catch (err) {
          if (!isRedisUnavailable(err)) throw err;
          await sleep(50);
        }
      }
      await sleep(10);
    }
  });
  return {
    queued,
    /** Resolves once events of all of these clients were accepted that were first sent after this call. */
    async servedAgain(clients: readonly string[]): Promise<void> {
      const from = Date.now();
      const isServed = (client: string) => (lastSentAt.get(client) ?? 0) > from;
      await until('they are served again', () => clients.every(isServed), recoveredWithinMs);
      console.log(`      ${queued.length} accepted; all are served again after ${Date.now() - from} ms`);
    },
    async stop(): Promise<void> {
      isGoing = false;
      await Promise.all(publishing);
    },
  };
}

describe('Failover', function () {
  this.timeout(180_000);
  const receiver = forTest(() => startReceiver());
  let h: Harness;

  async function start(replicasOfEach: number, settings = {}): Promise<RedisCluster> {
    const { redisServerBinary: binary } = servers();
    const cluster = opened(await startCluster({ dir: await newFolder(), binary, replicasOfEach }));
    h = opened(await startHarness({ REDIS_URL: cluster.url, ...settings }, 'worker'));
    return cluster;
  }

  /** Three clients whose keys are on this node, and three on others. */
  async function newClients(
    cluster: RedisCluster,
    node: ClusterNode,
  ): Promise<[on: string[], off: string[]]> {
    const [on, off]: [string[], string[]] = [[], []];
    while (on.length < 3 || off.length < 3) {
      const client = await h.newClient();
      const owner = await cluster.ownerOf(slotOf(h.db.client(client).base));
      const of = owner.id === node.id ? on : off;
      if (of.length === 3) continue;
      await h.registerUrl(client, receiver.url);
      of.push(client);
    }
    return [on, off];
  }

  const accepted = ({ queued }: Published, count = 30) =>
    until('events are accepted', () => queued.length >= count);
  const allArrive = ({ queued }: Published) =>
    until('all arrived', () => {
      const there = new Set(receiver.received.map(({ headers }) => headers['webhook-id']));
      return queued.every(({ id }) => there.has(id));
    });
  /** While no worker runs, nothing claims again what Redis has lost. */
  async function assertNothingLost({ queued }: Published): Promise<void> {
    for (const { client, id } of queued) {
      assert.ok(await until('an answer', () => h.notification(client, id).catch(() => undefined), 5000), id);
    }
  }

  it('all events arrive once while slots move from node to node', async () => {
    const cluster = await start(0);
    await h.startWorker();
    const [first, second] = cluster.nodes as [ClusterNode, ClusterNode];
    const [on, off] = await newClients(cluster, first);
    const published = publishAllTheTime(h, [...on, ...off]);
    const accept10More = () => accepted(published, published.queued.length + 10);
    await moveSlotsAtOnce([0, 5000], first, second);
    await accept10More();
    await moveSlotsAtOnce([0, 5000], second, first);
    await accept10More();
    for (const client of on) {
      const slot = slotOf(h.db.client(client).base);
      await moveSlot(slot, await cluster.ownerOf(slot), cluster.nodes[2] as ClusterNode, { keysAtOnce: 1 });
      await accept10More();
    }
    await published.stop();
    await allArrive(published);
    assert.equal(receiver.received.length, published.queued.length);
  });

  /** Publishes all the time while a primary is killed, until its clients are served again. */
  async function killUnderLoad(cluster: Awaited<ReturnType<typeof start>>) {
    const victim = cluster.nodes[0] as ClusterNode;
    const [on, off] = await newClients(cluster, victim);
    const published = publishAllTheTime(h, [...on, ...off]);
    await accepted(published);
    process.kill(victim.server.pid, 'SIGKILL');
    await victim.server.child.exited;
    await published.servedAgain(on);
    await published.stop();
    return published;
  }

  it('a killed primary of a cluster, REDIS_ACK_REPLICAS=1: no confirmed event is lost, and all arrive', async () => {
    const cluster = await start(2, { REDIS_ACK_REPLICAS: '1' });
    const published = await killUnderLoad(cluster);
    await assertNothingLost(published);
    await h.startWorker();
    await allArrive(published);
  });

  it('a killed primary of a cluster, no replica asked for: all arrive, as what Temporal has is claimed again', async () => {
    const cluster = await start(1);
    await h.startWorker();
    const published = await killUnderLoad(cluster);
    await allArrive(published);
  });

  it('a primary of a cluster that only hangs is replaced too, and undoes nothing when it continues', async () => {
    const cluster = await start(1);
    const victim = cluster.nodes[0] as ClusterNode;
    const [on] = await newClients(cluster, victim);
    const published = publishAllTheTime(h, on);
    await accepted(published);
    await whileStopped(victim.server.pid, () => published.servedAgain(on));
    await until('it is a replica', async () => /role:slave/.test(await victim.redis.info('replication')));
    await published.servedAgain(on);
    await published.stop();
    await assertNothingLost(published);
  });

  it('a killed primary that Sentinels watch, REDIS_ACK_REPLICAS=1: no confirmed event is lost', async () => {
    const set = opened(await startSentinels(await newFolder(), servers().redisServerBinary));
    h = opened(await startHarness({ REDIS_URL: set.url, REDIS_ACK_REPLICAS: '1' }, 'worker'));
    const clients = [await h.newClient(receiver.url), await h.newClient(receiver.url)];
    const published = publishAllTheTime(h, clients);
    await accepted(published);
    await set.killPrimary();
    await published.servedAgain(clients);
    await published.stop();
    await assertNothingLost(published);
  });
});
