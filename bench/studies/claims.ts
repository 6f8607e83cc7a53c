import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startRedis } from '../../local/redis.js';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { type ArrivedEvent, claimEvents } from '../../src/redis/owed/claim.js';
import { createDataFolder } from '../dataFolder.js';
import { spread } from '../percentile.js';
import { arrivedEvent } from './arrivedEvent.js';
import { registeredClients } from './registeredClients.js';
import type { Cell, Study } from './study.js';

const knownOf = [10, 100, 200, 1_000, 10_000, 100_000];
/** Known segments over all assets of a kind. Claims go to the assets in turn, because each claim adds known segments. */
const knownInAll = 100_000;

/** Measures the cost of a claim in Redis by the number of known segments of its asset. */
export const claims: Study<'claims' | 'rounds'> = {
  name: 'claims',
  about: 'The cost of a claim in Redis by the number of known segments of its asset.',
  sizes: {
    claims: [500, 'of each kind in each round'],
    rounds: [5, 'of each, in turn'],
  },
  async run({ claims: wanted, rounds }, { say }) {
    const dir = await createDataFolder();
    const server = await startRedis({ dir: join(dir, 'redis') });
    const log = createLogger('silent', 'bench');
    const db = openDb({ url: server.url, prefix: '', log, commandTimeoutMs: 10_000 });
    try {
      await waitForRedis(db, 5000);
      const rows: Cell[][] = [];
      for (const known of knownOf) {
        const [clientToken = ''] = await registeredClients(db, 1);
        const assets = Math.max(1, Math.min(wanted, Math.floor(knownInAll / known)));
        for (let a = 0; a < assets; a++) await know(db, clientToken, `video-${a}`, known);
        const row: Cell[] = [known.toLocaleString('en')];
        for (const kind of kinds) {
          const us: number[] = [];
          let appended = 0;
          for (let round = 0; round <= rounds; round++) {
            const before = await appendedBytes(db);
            await db.redis.config('RESETSTAT');
            for (let i = 0; i < wanted; i++) {
              const segments = kind.segments(known, i + round * wanted);
              await claimEvents(db, clientToken, [eventOf(clientToken, `video-${i % assets}`, segments)]);
            }
            const spent = /cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(await db.redis.info('commandstats'));
            // The first round warms up.
            if (round > 0) us.push(Number(spent?.[1] ?? 0) / wanted);
            appended = ((await appendedBytes(db)) - before) / wanted;
          }
          row.push(spread(us).median.toFixed(0), appended.toFixed(0));
        }
        say(row.join(' '));
        rows.push(row);
      }
      return {
        tables: [
          {
            title: `A claim by itself, over what is known of its asset: us in the script (median of ${rounds} rounds), bytes of log`,
            head: ['segments known before', ...kinds.flatMap(({ name }) => [`${name}: us`, 'bytes'])],
            rows,
          },
        ],
      };
    } finally {
      db.redis.disconnect();
      await server.stop();
      await rm(dir, { recursive: true, force: true });
    }
  },
};

const kinds = [
  { name: '3 new', segments: (_known: number, i: number) => [1, 2, 3].map((n) => `new ${i} ${n}`) },
  { name: '3 known', segments: (known: number, i: number) => knownSegments(known, i, 3) },
  {
    name: '199 known and 1 new',
    segments: (known: number, i: number) => [...knownSegments(known, i, 199), `one more ${i}`],
  },
];

/** Returns some known segments, different ones each time. */
function knownSegments(known: number, i: number, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `known ${(i * 7 + n) % known}`);
}

async function know(db: Db, clientToken: string, platformId: string, known: number): Promise<void> {
  for (let from = 0; from < known; from += 200) {
    const segments = Array.from({ length: Math.min(200, known - from) }, (_, n) => `known ${from + n}`);
    await claimEvents(db, clientToken, [{ ...eventOf(clientToken, platformId, segments), notify: false }]);
  }
}

async function appendedBytes(db: Db): Promise<number> {
  return Number(/aof_current_size:(\d+)/.exec(await db.redis.info('persistence'))?.[1]);
}

let count = 0;

function eventOf(clientToken: string, platformId: string, segments: readonly string[]): ArrivedEvent {
  return arrivedEvent({ clientToken, platformId, eventId: `event-${count++}`, segments });
}
