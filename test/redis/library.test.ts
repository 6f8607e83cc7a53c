import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { RedisServer } from '../../local/redis.js';
import { countCall } from '../../src/http/rates.js';
import { closeDb, type Db } from '../../src/redis/connection/db.js';
import { library, runScript } from '../../src/redis/connection/library.js';
import { markStore } from '../../src/redis/connection/mark.js';
import { explainRefusals, refusalOf } from '../../src/redis/connection/unavailable.js';
import { recordChange } from '../../src/redis/records/audit.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { countLibraries, joinLibraries } from '../../src/redis/records/libraries.js';
import { startOwnRedis } from '../ownRedis.js';
import { connectDb, forSuite, forTest, opened, openForSuite, useOpened } from '../servers.js';
import { keptLog } from '../service.js';
import { leaseMs, newDeliveryClient, ok } from './deliveryClient.js';

const saysFull = (err: unknown): boolean =>
  /^Free memory or raise maxmemory/.test(explainRefusals([refusalOf(err)])[0]?.todo ?? '');

describe('The library of scripts', () => {
  const redis = openForSuite(() => startOwnRedis());
  const client = forTest(() => newDeliveryClient({}, redis.url));

  it('forgets what it has read of an endpoint, whatever part of it writes there', () => {
    const written =
      /redis\.p?call\('(?:HSET|HSETNX|HDEL|HINCRBY|DEL)', (?:E|base \.\. '(?:endpoint|registration|client)')\b.*/g;
    assert.deepEqual(
      [...library.matchAll(written)].map(([line]) => line),
      ["redis.call('HSET', E, ...)"],
    );
  });

  it('is loaded again where a server has lost it, by many calls at once', async () => {
    await client.db.redis.call('FUNCTION', 'FLUSH');
    await Promise.all(['a', 'b', 'c'].map((asset) => client.owe(asset)));
    assert.equal((await client.take()).length, 3);
  });

  it('is loaded where the key is, while another server is unavailable', async () => {
    const { db, clientToken } = client;
    await db.redis.call('FUNCTION', 'FLUSH');
    const away = { call: () => Promise.reject(new Error('Connection is closed')) } as unknown as Redis;
    const nodes = { ...db.nodes, primaries: () => [db.redis, away] };
    await runScript({ ...db, nodes }, 'resetRegistration', clientToken, []);
  });

  it('stands beside that of another release', async () => {
    const [release = ''] = /_[0-9a-f]{12}/.exec(library) ?? [];
    await client.db.redis.call('FUNCTION', 'LOAD', library.replaceAll(release, '_another00000'));
    await client.owe('vid');
    assert.equal((await client.attempt({ platformId: 'vid' }, ok)).result, 'delivered');
  });

  it('says what to do where a full Redis refuses to load it', async () => {
    const { redis: connection } = client.db;
    await connection.call('FUNCTION', 'FLUSH');
    await connection.config('SET', 'maxmemory', 1);
    await assert.rejects(() => client.owe('vid'), saysFull);
    await connection.config('SET', 'maxmemory', 0);
    await client.owe('vid');
  });

  it('refuses a full Redis’ claims as a whole, records operators’ changes, and delivers what is owed, also by a process that died', async () => {
    await client.owe('vid');
    await client.owe('next');
    const [taken] = await client.take(1);
    assert.ok(taken);
    const before = await client.endpoint();
    await markStore(client.db);
    await client.db.redis.config('SET', 'maxmemory', 1);
    await markStore(client.db);
    await assert.rejects(() => client.claims([client.event({ platformId: 'other' })]), saysFull);
    assert.deepEqual(await client.endpoint(), before);
    assert.equal(await client.db.durably((own) => setPaused(own, client.clientToken, false)).safe, false);
    const change = { who: 'Ada', what: 'registration pause', target: client.clientToken };
    await recordChange(client.db, { ...change, before: null, after: null });
    const turned = await client.turn({ verdicts: [client.verdict(taken, ok)], most: 1 });
    client.pass(leaseMs + 1);
    await client.plan();
    const again = await client.take();
    await client.db.redis.config('SET', 'maxmemory', 0);
    assert.equal(turned.settled[0]?.result, 'delivered');
    const other = taken.platformId === 'vid' ? 'next' : 'vid';
    for (const [one, ...more] of [turned.taken, again])
      assert.deepEqual([one?.platformId, more], [other, []]);
  });
});

describe('The scripts of earlier releases', () => {
  const ofSuite = useOpened();
  const redis = forSuite(async () => ofSuite(await startOwnRedis()));
  const [own = ''] = /_[0-9a-f]{12}/.exec(library) ?? [];
  const day = 86_400_000;
  const open = async (url: string) => opened(await connectDb(url, 'libraries-'), closeDb);
  const loaded = async ({ redis }: Db) =>
    ((await redis.call('FUNCTION', 'LIST')) as unknown[][])
      .map((fields) => String(fields[1]).replace('asset_update', ''))
      .sort();

  async function load(db: Db, noted: Record<string, number>): Promise<void> {
    await db.redis.call('FUNCTION', 'FLUSH');
    await db.redis.del(db.global.installation);
    for (const [release, agoMs] of Object.entries(noted)) {
      await db.redis.call('FUNCTION', 'LOAD', library.replaceAll(own, release));
      const field = `library:asset_update${release}`;
      if (agoMs < Infinity) await db.redis.hset(db.global.installation, field, Date.now() - agoMs);
    }
  }

  it('are deleted by a start once none of the installation has used them for a day; another installation’s stay', async () => {
    const db = await open(redis.url);
    const { log, lines } = keptLog('info');
    await load(db, { _left00000000: 1.1 * day, _inUse0000000: 0.9 * day, _another00000: Infinity });
    await joinLibraries(db, log);
    assert.deepEqual(await loaded(db), ['_another00000', '_inUse0000000', own].sort());
    assert.deepEqual(
      lines.map(({ libraries }) => libraries),
      [['asset_update_left00000000']],
    );
    assert.deepEqual(await countLibraries(db, db.redis), { all: 3, noted: 2 });
    // By another process that knows nothing of it, at the same time.
    await load(db, { _left00000000: 1.1 * day });
    await Promise.all([joinLibraries(db, log), joinLibraries(db, log), joinLibraries(db, log)]);
    assert.deepEqual(await loaded(db), [own]);
  });

  it('stay where the user may not delete them, which refuses nothing else', async () => {
    const db = await open(redis.url);
    await db.redis.call('ACL', 'SETUSER', 'limited', 'on', '>pw', '~*', '&*', '+@all', '-function|delete');
    const limited = await open(redis.url.replace('//', '//limited:pw@'));
    const { log, lines } = keptLog('info');
    await load(db, { _left00000000: 1.1 * day });
    await joinLibraries(limited, log);
    assert.deepEqual(await loaded(db), ['_left00000000', own].sort());
    assert.deepEqual([limited.health.refused(), lines], [[], []]);
  });
});

describe('Redis commands are timed and counted by the cause of a failure', () => {
  let server: RedisServer;
  let db: Db;
  const told: (string | undefined)[] = [];
  const ofSuite = useOpened();
  before(async () => {
    server = ofSuite(await startOwnRedis());
    db = ofSuite(await open(), closeDb);
  });
  beforeEach(() => {
    told.length = 0;
  });

  async function open(settings: { commandTimeoutMs?: number } = {}): Promise<Db> {
    const answers = () => told.filter((refused) => refused === undefined).length;
    const before = answers();
    const opened = await connectDb(server.url, '', {
      ...settings,
      observe: {
        answered(milliseconds) {
          assert.ok(milliseconds >= 0);
          told.push(undefined);
        },
        refused: (reason) => void told.splice(-1, 1, reason),
      },
    });
    // The answer that this waited for, and the greeting of the connection.
    while (answers() < before + 2) await sleep(5);
    return opened;
  }

  it('for an answer, each command of a pipeline, and a script that must be loaded first', async () => {
    await db.redis.set('a', 1);
    await db.redis.pipeline().get('a').get('b').exec();
    await runScript(db, 'resetRegistration', 'SITE', []);
    assert.deepEqual(told, Array(6).fill(undefined));
  });

  it('as other for a failing script of the service', async () => {
    const rate = db.client('SITE').callRate('sends');
    await db.redis.lpush(rate, 'no string');
    await assert.rejects(countCall(db, rate, { calls: 1, windowSeconds: 1 }), /WRONGTYPE/);
    await db.redis.del(rate);
    assert.deepEqual(told, [undefined, 'other', undefined]);
  });

  it('as timeout without an answer in time, and as away without a server', async () => {
    const hasty = await open({ commandTimeoutMs: 200 });
    told.length = 0;
    process.kill(server.pid, 'SIGSTOP');
    await assert.rejects(hasty.redis.get('a'));
    assert.deepEqual(told, ['timeout']);
    hasty.redis.disconnect();
    process.kill(server.pid, 'SIGCONT');
    await server.stop();
    told.length = 0;
    await assert.rejects(db.redis.get('a'));
    assert.ok(told.includes('away'), told.join());
  });
});
