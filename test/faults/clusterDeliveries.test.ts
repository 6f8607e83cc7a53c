import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ClusterNode, type RedisCluster, startCluster } from '../../local/redisCluster.js';
import { slotOf } from '../../src/redis/connection/slots.js';
import { isRedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { moveSlotsAtOnce } from '../moveSlot.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { servers } from '../servers.js';
import { type Harness, startHarness } from '../service.js';

/** Every event that was answered `queued`. */
interface Published {
  queued: string[];
  stop(): Promise<void>;
}

/** Publishes for each client, one event after the other, each of an asset of its own and again until it is answered. */
function publishAllTheTime(h: Harness, clients: readonly string[]): Published {
  let isGoing = true;
  const queued: string[] = [];
  const publishing = clients.map(async (client, n) => {
    for (let i = 0; isGoing; i++) {
      const event = { client, asset: `vid-${n}-${i}`, eventId: `event-${n}-${i}`, segments: ['a'] };
      for (;;) {
        try {
          const { id, kind } = await h.publish(event);
          if (kind === 'queued') queued.push(id);
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
    async stop() {
      isGoing = false;
      await Promise.all(publishing);
    },
  };
}

describe('Deliveries on a Redis Cluster', function () {
  this.timeout(180_000);
  let dir: string;
  let cluster: RedisCluster;
  let receiver: Receiver;
  let h: Harness;

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-cluster-'));
    receiver = await startReceiver();
  });
  afterEach(async () => {
    await h?.close();
    await receiver?.close();
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  const start = async (replicasOfEach: number) => {
    cluster = await startCluster({ dir, binary: servers().redisServerBinary, replicasOfEach });
  };

  /** Clients whose keys are on this node, and as many on others. */
  async function newClients(node: ClusterNode): Promise<string[]> {
    const [on, off]: [string[], string[]] = [[], []];
    while (on.length < 3 || off.length < 3) {
      const client = await h.newClient();
      const owner = await cluster.ownerOf(slotOf(h.db.client(client).base));
      const of = owner.id === node.id ? on : off;
      if (of.length === 3) continue;
      await h.registerUrl(client, receiver.url);
      of.push(client);
    }
    return [...on, ...off];
  }

  const received = () => new Set(receiver.received.map(({ headers }) => String(headers['webhook-id'])));
  const missingOf = (ids: readonly string[]) => {
    const there = received();
    return ids.filter((id) => !there.has(id));
  };

  it('all arrive once while slots move from node to node', async () => {
    await start(0);
    h = await startHarness({ REDIS_URL: cluster.url });
    await h.startWorker();
    const [first, second] = cluster.nodes as [ClusterNode, ClusterNode];
    const clients = await newClients(first);
    const published = publishAllTheTime(h, clients);
    for (const [from, to] of [
      [first, second],
      [second, first],
    ] as const) {
      const before = published.queued.length;
      await moveSlotsAtOnce([0, 5000], from, to);
      await until('events were accepted meanwhile', () => published.queued.length > before + 10);
    }
    await published.stop();
    await until('all arrived', async () => missingOf(published.queued).length === 0);
    assert.equal(receiver.received.length, published.queued.length);
  });

  for (const [what, replicasOfEach, env] of [
    ['REDIS_ACK_REPLICAS=1', 2, { REDIS_ACK_REPLICAS: '1' }],
    ['no replica asked for: what Temporal has is claimed again', 1, {}],
  ] as const) {
    it(`all arrive although a primary is killed, with ${what}`, async () => {
      await start(replicasOfEach);
      h = await startHarness({ REDIS_URL: cluster.url, ...env }, 'worker');
      await h.startWorker();
      const victim = cluster.nodes[0] as ClusterNode;
      const clients = await newClients(victim);
      const published = publishAllTheTime(h, clients);
      await until('events are accepted', () => published.queued.length > 20);
      process.kill(victim.server.pid, 'SIGKILL');
      const again = { client: clients[0] as string, asset: 'again' };
      await until('its clients are served again', () => h.publish(again).catch(() => undefined), 90_000);
      await published.stop();
      await until('all arrived', async () => missingOf(published.queued).length === 0);
    });
  }
});
