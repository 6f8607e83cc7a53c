import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { announceClaims } from '../../src/redis/owed/owedClients.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { readCounts } from '../../src/redis/sweep/counts.js';
import { until } from '../delivery/harness.js';
import { monitorRedis } from '../monitorRedis.js';
import { servers, uniquePrefix } from '../servers.js';
import { type Service, startService } from './service.js';

describe('GET /metrics of every role reads one key of Redis, for any amount owed', () => {
  let prefix: string;
  let db: Db;
  beforeEach(async () => {
    prefix = uniquePrefix();
    db = openDb({ url: servers().redisUrl, prefix, log: createLogger('silent', 'test') });
    await waitForRedis(db, 5000);
    const { account_id: accountId } = await createAccount(db, { name: 'A company' });
    const clients = Array.from({ length: 30 }, (_, i) => `OWED-${i}`);
    for (const clientToken of clients) await createClient(db, { accountId, name: 'A site', clientToken });
    await announceClaims(db, clients);
  });
  afterEach(() => db.redis.disconnect());

  /** Returns the Redis commands on this service's keys during a scrape. */
  async function asked(service: Service, scrapes: number): Promise<string[]> {
    const commands: string[] = [];
    let isSeen = false;
    const endMonitor = await monitorRedis(servers().redisUrl, (args) => {
      if (args[1] === `${prefix}the-end`) isSeen = true;
      else if (args.slice(1).some((arg) => arg.includes(prefix))) commands.push(args.slice(0, 2).join(' '));
    });
    for (let i = 0; i < scrapes; i++) {
      const answer = await fetch(`${service.adminUrl}/metrics`);
      assert.equal(answer.status, 200);
      await answer.text();
    }
    await db.redis.get(`${prefix}the-end`);
    await until('the monitor has seen it all', () => isSeen);
    endMonitor();
    return commands;
  }

  it('api', async () => {
    const service = await startService({ KEY_PREFIX: prefix }, 'api');
    try {
      assert.deepEqual(await asked(service, 3), Array(3).fill(`hgetall ${prefix}counts`));
    } finally {
      await service.stop();
    }
  });

  it('all: also with a worker, once its first sweep has ended', async () => {
    const service = await startService({ KEY_PREFIX: prefix, TASK_QUEUE: `${prefix}queue` });
    try {
      await until('a sweep has ended', async () => (await readCounts(db)).ended !== undefined);
      // A sweep may have begun meanwhile.
      await until('a scrape asks for nothing else', async () =>
        isDeepStrictEqual(await asked(service, 3), Array(3).fill(`hgetall ${prefix}counts`)),
      );
      const text = await (await fetch(`${service.adminUrl}/metrics`)).text();
      for (const name of [
        'owed_notifications',
        'catch_ups_running',
        'broken_clients',
        'sweep_schedule_paused',
      ]) {
        assert.match(text, new RegExp(`^asset_update_${name} 0$`, 'm'));
      }
    } finally {
      await service.stop();
    }
  });
});
