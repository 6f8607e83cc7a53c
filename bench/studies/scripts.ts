import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startRedis } from '../../local/redis.js';
import { notificationId } from '../../src/ids.js';
import { createLogger } from '../../src/log.js';
import { projectDir } from '../../src/operator/running/projectDir.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { turnAttempts } from '../../src/redis/owed/attempts.js';
import { type ArrivedEvent, claimEvents } from '../../src/redis/owed/claim.js';
import type { Verdict } from '../../src/redis/owed/settle.js';
import type { Taken } from '../../src/redis/owed/take.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { register } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { type ScriptCost, scriptCosts, type Way } from './scriptCosts.js';
import type { Study, Table } from './study.js';

type Size = 'events' | 'rounds' | 'clients' | 'lanes';

/** What Redis pays for an event that is delivered at once: its claim with a take, then its verdict. */
export const scripts: Study<Size> = {
  name: 'scripts',
  about: 'What the scripts cost Redis for an event that is delivered at once, one by one and in groups.',
  sizes: {
    events: [12_000, 'in each round of each group size'],
    rounds: [7, 'of each, in turn'],
    clients: [50, 'that the events are for'],
    lanes: [16, 'clients whose events are under way at a time'],
  },
  async run({ events, rounds, clients, lanes }, { say }) {
    await mkdir(join(projectDir, '.data'), { recursive: true });
    const dir = await mkdtemp(join(projectDir, '.data', `bench-${process.pid}-`));
    const server = await startRedis({ dir: join(dir, 'redis') });
    const db = openDb({ url: server.url, prefix: '', log: createLogger('silent', 'bench') });
    try {
      await waitForRedis(db, 5000);
      const ways: Way[] = [1, 3, 8].map((group) => ({
        name: `groups of ${group}`,
        group,
        deliver: inTurns(db),
      }));
      ways.push({ name: 'claimed in groups of 3, settled one by one', group: 3, deliver: settledApart(db) });
      const clientTokens = await registeredClients(db, clients);
      const costs = await scriptCosts({
        db,
        pid: server.pid,
        ways,
        clientTokens,
        events,
        rounds,
        lanes,
        say,
      });
      return { tables: [tableOf(costs, rounds)] };
    } finally {
      db.redis.disconnect();
      await server.stop();
      await rm(dir, { recursive: true, force: true });
    }
  },
};

function tableOf(costs: readonly ScriptCost[], rounds: number): Table {
  const span = (values: readonly number[]) => {
    const sorted = [...values].sort((a, b) => a - b);
    return [sorted[0], sorted[Math.floor(sorted.length / 2)], sorted.at(-1)]
      .map((us) => (us ?? 0).toFixed(1))
      .join(', ');
  };
  return {
    title: `Redis for an event that is delivered at once: us of min, median, max of ${rounds} rounds`,
    head: ['', 'CPU of its process', 'in scripts', 'scripts an event', 'reads and writes in them'],
    rows: costs.map(({ name, cpuUs, scriptUs, scripts: calls, commands }) => [
      name,
      span(cpuUs),
      span(scriptUs),
      calls,
      commands,
    ]),
  };
}

const bounds = { leaseMs: 15_000, maxInFlight: 1000, drainPerSecond: 200 };
const noSchedule = {
  retryScheduleMs: [],
  retryWindowMs: 0,
  failingAfter: 1,
  probeScheduleMs: [],
  suspendAfterMs: 0,
};
let count = 0;

/** What is claimed together is settled together, in the next turn. */
function inTurns(db: Db): Way['deliver'] {
  return async (clientToken, group) => {
    const verdicts = await claimAndTake(db, clientToken, group);
    await turnAttempts(db, clientToken, { verdicts, nonce: `n${count++}` }, bounds, noSchedule);
  };
}

function settledApart(db: Db): Way['deliver'] {
  return async (clientToken, group) => {
    for (const verdict of await claimAndTake(db, clientToken, group)) {
      const turn = { verdicts: [verdict], nonce: `n${count++}` };
      await turnAttempts(db, clientToken, turn, bounds, noSchedule);
    }
  };
}

async function claimAndTake(db: Db, clientToken: string, numbers: readonly number[]): Promise<Verdict[]> {
  const events = numbers.map((n) => eventOf(clientToken, n));
  const { claims } = await claimEvents(db, clientToken, events, { ...bounds, nonce: `n${count++}` });
  return events.map((event, i) => {
    const claim = claims[i];
    if (claim?.kind !== 'claimed' || claim.take?.kind !== 'taken') {
      throw new Error(`an event was not taken: ${JSON.stringify(claim)}`);
    }
    return verdictOf(event, claim.take);
  });
}

/** Three new segments for an asset of its own. */
function eventOf(clientToken: string, n: number): ArrivedEvent {
  const event = {
    clientToken,
    platformId: `video-${n}`,
    eventId: `event-${n}`,
    segments: [`iab:${n % 700}`, `mood:${n % 50}`, `place:${n}`],
  };
  return {
    ...event,
    notificationId: notificationId(event),
    priority: 'live',
    notify: true,
    acceptedAt: Date.now(),
  };
}

function verdictOf({ platformId, notificationId: id }: ArrivedEvent, taken: Taken): Verdict {
  return {
    platformId,
    notificationId: id,
    taken,
    ok: true,
    attempt: {
      at: Date.now(),
      url: taken.url,
      milliseconds: 3,
      status: 204,
      remote_address: '127.0.0.1',
    },
  };
}

async function registeredClients(db: Db, many: number): Promise<string[]> {
  const box = createSecretBox(undefined);
  const { account_id: accountId } = await createAccount(db, { name: 'A media company' });
  const clientTokens: string[] = [];
  for (let i = 0; i < many; i++) {
    const { clientToken } = await createClient(db, { accountId, name: `Site ${i}` });
    await register(db, box, { clientToken, accountId, url: `https://receiver.example/${clientToken}` });
    clientTokens.push(clientToken);
  }
  return clientTokens;
}
