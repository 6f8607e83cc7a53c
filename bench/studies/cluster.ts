import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startRedis } from '../../local/redis.js';
import { startCluster } from '../../local/redisCluster.js';
import { readConfig } from '../../src/config.js';
import { deliveryOf } from '../../src/delivery/settings.js';
import { notificationId } from '../../src/ids.js';
import { createLogger } from '../../src/log.js';
import { projectDir } from '../../src/operator/running/projectDir.js';
import { closeDb, type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { turnAttempts } from '../../src/redis/owed/attempts.js';
import { type ArrivedEvent, claimEvents } from '../../src/redis/owed/claim.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { register } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import type { Cell, Study } from './study.js';

/** What a notification costs Redis in a cluster. One primary alone shows what the mode costs, three what is left to share. */
export const cluster: Study<'notifications' | 'rounds' | 'clients' | 'callers'> = {
  name: 'cluster',
  about: 'What a notification costs one Redis, and the primaries of a cluster.',
  sizes: {
    notifications: [1000, 'in each round'],
    rounds: [20, 'of each, in turn'],
    clients: [60, 'that the notifications are for'],
    callers: [32, 'at the same time'],
  },
  async run({ notifications, rounds, clients, callers }, { say }) {
    await mkdir(join(projectDir, '.data'), { recursive: true });
    const dir = await mkdtemp(join(projectDir, '.data', `bench-${process.pid}-`));
    const one = await startRedis({ dir: join(dir, 'redis') });
    const [alone, three] = [
      await startCluster({ dir: join(dir, 'alone'), primaries: 1, replicasOfEach: 0 }),
      await startCluster({ dir: join(dir, 'three'), primaries: 3, replicasOfEach: 0 }),
    ];
    const kinds = [
      { name: 'one Redis', url: one.url },
      { name: 'a cluster of one primary', url: alone.url },
      { name: 'a cluster of three, in all', url: three.url },
    ].map(({ name, url }) => ({ name, db: open(url), tokens: [] as string[], spentUs: [] as number[] }));
    try {
      for (const kind of kinds) {
        await waitForRedis(kind.db, 10_000);
        kind.tokens = await registeredClients(kind.db, clients);
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
      const first = median(kinds[0]?.spentUs ?? []);
      return {
        tables: [
          {
            title: `CPU time of Redis for one notification, us, over ${rounds} rounds`,
            head: ['', 'median', 'least', 'most', 'median beside one Redis'],
            rows: kinds.map(({ name, spentUs }): Cell[] => [
              name,
              ...[median(spentUs), Math.min(...spentUs), Math.max(...spentUs)].map((us) => us.toFixed(0)),
              (median(spentUs) / first).toFixed(2),
            ]),
          },
        ],
      };
    } finally {
      for (const { db } of kinds) closeDb(db);
      await Promise.all([alone.stop(), three.stop(), one.stop()]);
      await rm(dir, { recursive: true, force: true });
    }
  },
};

const open = (url: string): Db =>
  openDb({ url, prefix: '', log: createLogger('silent', 'bench'), commandTimeoutMs: 10_000 });
const delivery = deliveryOf(readConfig({}));
let count = 0;

/** Claims and takes, then settles: what Redis does for a notification that is delivered at once. */
async function deliver(db: Db, tokens: readonly string[], wanted: number, callers: number): Promise<void> {
  let left = wanted;
  const caller = async () => {
    while (left-- > 0) {
      const event = eventOf(tokens[count % tokens.length] as string);
      const nonce = `nonce-${count}`;
      const { claims } = await claimEvents(db, event.clientToken, [event], { ...delivery, nonce });
      const [claim] = claims;
      if (claim?.kind !== 'claimed' || claim.take?.kind !== 'taken') {
        throw new Error(`claim answered ${JSON.stringify(claim)}`);
      }
      const attempt = { at: Date.now(), url: claim.take.url, milliseconds: 5, status: 200 };
      const { platformId, notificationId: id } = event;
      const verdict = { platformId, notificationId: id, taken: claim.take, ok: true, attempt };
      const turn = { verdicts: [verdict], nonce: `${nonce}-settled` };
      await turnAttempts(db, event.clientToken, turn, delivery, delivery);
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
  const event = { clientToken, platformId: `video-${n}`, eventId: `event-${n}`, segments: ['a', 'b', 'c'] };
  return {
    ...event,
    notificationId: notificationId(event),
    priority: 'live',
    notify: true,
    acceptedAt: Date.now(),
  };
}

async function registeredClients(db: Db, wanted: number): Promise<string[]> {
  const { account_id: accountId } = await createAccount(db, { name: 'A media company' });
  const tokens: string[] = [];
  for (let i = 0; i < wanted; i++) {
    const { clientToken } = await createClient(db, { accountId, name: 'A site' });
    const url = `https://receiver.example/${clientToken}`;
    await register(db, createSecretBox(undefined), { clientToken, accountId, url });
    tokens.push(clientToken);
  }
  return tokens;
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
