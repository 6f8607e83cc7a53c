import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ClusterNode, type RedisCluster, startCluster } from '../../local/redisCluster.js';
import { slotOf } from '../../src/redis/connection/slots.js';
import { isRedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import { announceClaims, isIndexed } from '../../src/redis/owed/owedClients.js';
import { closeDeliveryClients, type DeliveryClient, newDeliveryClient } from '../redis/deliveryClient.js';
import { untilRedisAnswers } from '../redis/untilRedisAnswers.js';
import { type SentinelSet, startSentinels } from '../redisSentinels.js';
import { servers } from '../servers.js';

/** A busy machine needs longer than the seconds of docs/reliability.md: Sentinels do nothing for 30 s after a pause of their own. */
const recoveredWithinMs = 90_000;
const clientsAtOnce = 12;

interface Load {
  /** Notifications whose claim was confirmed, with their clients. */
  acknowledged: { client: DeliveryClient; id: string }[];
  /** When each client's last claim was confirmed, ms. */
  lastAt: Map<DeliveryClient, number>;
  stop(): Promise<void>;
}

/** Claims for every client, one event after the other, as fast as they are confirmed; what gets no answer is left. */
async function claimAllTheTime(clients: DeliveryClient[]): Promise<Load> {
  let isGoing = true;
  const load: Omit<Load, 'stop'> = { acknowledged: [], lastAt: new Map() };
  const working = clients.map(async (client, n) => {
    for (let i = 0; isGoing; i++) {
      try {
        await announceClaims(client.db, [client.clientToken]);
        const owed = await client.owe(`vid-${n}-${i}`);
        load.acknowledged.push({ client, id: owed.notificationId });
        load.lastAt.set(client, Date.now());
      } catch (err) {
        if (!isRedisUnavailable(err)) throw err;
        await sleep(20);
      }
    }
  });
  return {
    ...load,
    async stop() {
      isGoing = false;
      await Promise.all(working);
    },
  };
}

/** Those that were confirmed and are not there. */
async function lostOf({ acknowledged }: Pick<Load, 'acknowledged'>): Promise<string[]> {
  const found: { id: string; isThere: boolean }[] = [];
  for (const { client, id } of acknowledged) {
    const record = await untilRedisAnswers(() => getNotification(client.db, client.clientToken, id));
    found.push({ id, isThere: record !== undefined });
  }
  return found.filter(({ isThere }) => !isThere).map(({ id }) => id);
}

/** Resolves once some claims are confirmed. */
async function underWay({ acknowledged }: Load): Promise<void> {
  while (acknowledged.length < 5 * clientsAtOnce) await sleep(20);
}

/** Resolves once claims of all of these are confirmed again; how long that took, ms. */
async function recovered(load: Load, clients: readonly DeliveryClient[], sinceMs: number): Promise<number> {
  for (;;) {
    const last = clients.map((client) => load.lastAt.get(client) ?? 0);
    // Some answers were under way when the server was killed.
    if (last.every((at) => at > sinceMs + 500)) return Math.max(...last) - sinceMs;
    assert.ok(Date.now() < sinceMs + recoveredWithinMs, 'it was replaced');
    await sleep(20);
  }
}

describe('The killed primary of a Redis Cluster', function () {
  this.timeout(180_000);
  let dir: string;
  let cluster: RedisCluster;

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-failover-'));
  });
  afterEach(async () => {
    closeDeliveryClients();
    await cluster?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  async function kill({ server }: ClusterNode): Promise<number> {
    const at = Date.now();
    process.kill(server.pid, 'SIGKILL');
    await server.child.exited;
    return at;
  }

  const start = async (replicasOfEach: number) => {
    cluster = await startCluster({ dir, binary: servers().redisServerBinary, replicasOfEach });
  };

  async function clientsByNode(ackReplicas: number): Promise<{
    ofVictim: DeliveryClient[];
    others: DeliveryClient[];
    victim: ClusterNode;
  }> {
    const victim = cluster.nodes[0] as ClusterNode;
    const [ofVictim, others]: [DeliveryClient[], DeliveryClient[]] = [[], []];
    while (ofVictim.length < clientsAtOnce / 2 || others.length < clientsAtOnce / 2) {
      const client = await newDeliveryClient({}, cluster.url, { trusted: false, ackReplicas });
      const owner = await cluster.ownerOf(slotOf(client.db.client(client.clientToken).base));
      const of = owner.id === victim.id ? ofVictim : others;
      if (of.length < clientsAtOnce / 2) of.push(client);
    }
    return { ofVictim, others, victim };
  }

  it('is replaced by one of its two replicas with REDIS_ACK_REPLICAS=1, and no confirmed write is lost', async () => {
    await start(2);
    const { ofVictim, others, victim } = await clientsByNode(1);
    const load = await claimAllTheTime([...ofVictim, ...others]);
    await underWay(load);
    const at = await kill(victim);
    const tookMs = await recovered(load, ofVictim, at);
    await load.stop();
    assert.deepEqual(await lostOf(load), []);
    for (const { db, clientToken } of ofVictim) {
      assert.equal(await untilRedisAnswers(() => isIndexed(db, clientToken)), true);
    }
    console.log(`      ${load.acknowledged.length} confirmed, none lost; again after ${tookMs} ms`);
  });

  it('is also replaced if it only hangs, and undoes nothing when it continues', async () => {
    await start(1);
    const { ofVictim, victim } = await clientsByNode(0);
    const load = await claimAllTheTime(ofVictim);
    try {
      await underWay(load);
      const at = Date.now();
      process.kill(victim.server.pid, 'SIGSTOP');
      await recovered(load, ofVictim, at);
    } finally {
      process.kill(victim.server.pid, 'SIGCONT');
    }
    const again = Date.now();
    while (!/role:slave/.test(await victim.redis.info('replication'))) await sleep(50);
    await recovered(load, ofVictim, again);
    await load.stop();
    assert.deepEqual(await lostOf(load), []);
  });
});

describe('The killed primary that Sentinels watch', function () {
  this.timeout(180_000);
  let dir: string;
  let set: SentinelSet;

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-sentinels-'));
    set = await startSentinels({ dir, binary: servers().redisServerBinary });
  });
  after(async () => {
    closeDeliveryClients();
    await set?.stop();
    await rm(dir, { recursive: true, force: true });
  });

  it('is replaced, and no write that two servers confirmed is lost', async () => {
    const newClient = () => newDeliveryClient({}, set.url, { trusted: false, ackReplicas: 1 });
    const clients = [await newClient(), await newClient()];
    const load = await claimAllTheTime(clients);
    await underWay(load);
    const at = Date.now();
    await set.killPrimary();
    const tookMs = await recovered(load, clients, at);
    await load.stop();
    assert.deepEqual(await lostOf(load), []);
    console.log(`      ${load.acknowledged.length} confirmed, none lost; again after ${tookMs} ms`);
  });
});
