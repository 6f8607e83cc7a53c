import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startRedis } from '../../local/redis.js';
import { startCluster } from '../../local/redisCluster.js';
import { readConfig } from '../../src/config.js';
import { deliveryOf } from '../../src/delivery/settings.js';
import { createLogger } from '../../src/log.js';
import { closeDb, type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { type ArrivedEvent, claimEvents } from '../../src/redis/owed/claim.js';
import { turnAttempts } from '../../src/redis/owed/turn.js';
import { createDataFolder } from '../dataFolder.js';
import { spread } from '../percentile.js';
import { stopList } from '../stopList.js';
import { arrivedEvent } from './arrivedEvent.js';
import { registeredClients } from './registeredClients.js';
import type { Cell, Study } from './study.js';

/** Measures the CPU time of a notification in a cluster: one primary shows the cost of the mode, three the cost of sharing. */
export const cluster: Study<'notifications' | 'rounds' | 'clients' | 'callers'> = {
  name: 'cluster',
  about: 'CPU time of one Redis, and of the primaries of a cluster, for a notification.',
  sizes: {
    notifications: [1000, 'in each round'],
    rounds: [20, 'of each, in turn'],
    clients: [60, 'that the notifications are for'],
    callers: [32, 'at the same time'],
  },
  async run({ notifications, rounds, clients, callers }, { say }) {
    const dir = await createDataFolder();
    const started = stopList();
    started.add({ stop: () => rm(dir, { recursive: true, force: true }) });
    try {
      const startPrimaries = (primaries: number) =>
        startCluster({ dir: join(dir, `primaries-${primaries}`), primaries, replicasOfEach: 0 });
      const servers = {
        'one Redis': () => startRedis({ dir: join(dir, 'redis') }),
        'a cluster of one primary': () => startPrimaries(1),
        'a cluster of three, in all': () => startPrimaries(3),
      };
      const kinds: Kind[] = [];
      for (const [name, start] of Object.entries(servers)) {
        const server = await start();
        started.add(server);
        const db = open(server.url);
        started.add({ stop: async () => closeDb(db) });
        await waitForRedis(db, 10_000);
        kinds.push({ name, db, tokens: await registeredClients(db, clients), spentUs: [] });
      }
      // The first round warms up.
      for (let round = 0; round <= rounds; round++) {
        for (const { db, tokens, spentUs } of kinds) {
          const before = await cpuSeconds(db);
          await deliver(db, tokens, notifications, callers);
          const us = ((await cpuSeconds(db)) - before) * (1e6 / notifications);
          if (round > 0) spentUs.push(us);
        }
        say(kinds.map(({ spentUs }) => spentUs.at(-1)?.toFixed(0) ?? '-').join(' '));
      }
      const beside = spread(kinds[0]?.spentUs ?? []).median;
      return {
        tables: [
          {
            title: `CPU time of Redis for one notification, us, over ${rounds} rounds`,
            head: ['', 'median', 'least', 'most', 'median beside one Redis'],
            rows: kinds.map(({ name, spentUs }): Cell[] => {
              const { median, min, max } = spread(spentUs);
              return [name, ...[median, min, max].map((us) => us.toFixed(0)), (median / beside).toFixed(2)];
            }),
          },
        ],
      };
    } finally {
      await started.stop();
    }
  },
};

interface Kind {
  name: string;
  db: Db;
  tokens: string[];
  /** CPU time of a notification in each round. */
  spentUs: number[];
}

const open = (url: string): Db =>
  openDb({ url, prefix: '', log: createLogger('silent', 'bench'), commandTimeoutMs: 10_000 });
const settings = deliveryOf(readConfig({}));
let count = 0;

/** Claims, takes and settles notifications, as the service does for each that is delivered at the first attempt. */
async function deliver(db: Db, tokens: readonly string[], wanted: number, callers: number): Promise<void> {
  let left = wanted;
  const caller = async () => {
    while (left-- > 0) {
      const event = eventOf(tokens[count % tokens.length] as string);
      const nonce = `nonce-${count}`;
      const { claims } = await claimEvents(db, event.clientToken, [event], { ...settings, nonce });
      const [claim] = claims;
      if (claim?.kind !== 'claimed' || claim.take?.kind !== 'taken') {
        throw new Error(`claim answered ${JSON.stringify(claim)}`);
      }
      const attempt = { at: Date.now(), url: claim.take.url, milliseconds: 5, status: 200 };
      const { platformId, notificationId: id } = event;
      const verdict = { platformId, notificationId: id, taken: claim.take, ok: true, attempt };
      const turn = { verdicts: [verdict], nonce: `${nonce}-settled` };
      await turnAttempts(db, event.clientToken, turn, settings);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
}

async function cpuSeconds({ nodes }: Db): Promise<number> {
  const infos = await Promise.all(nodes.primaries().map((server) => server.info('cpu')));
  const all = infos.flatMap((info) => [...info.matchAll(/^used_cpu_(?:user|sys):([\d.]+)/gm)]);
  return all.reduce((sum, [, seconds]) => sum + Number(seconds), 0);
}

function eventOf(clientToken: string): ArrivedEvent {
  const n = count++;
  const segments = ['a', 'b', 'c'];
  return arrivedEvent({ clientToken, platformId: `video-${n}`, eventId: `event-${n}`, segments });
}
