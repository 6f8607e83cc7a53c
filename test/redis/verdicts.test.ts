/** What each refusal of a running Redis stops, and whether /readyz, `doctor`, the metrics and the log say the same. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from '../../local/ports.js';
import { readConfig } from '../../src/config.js';
import { createMetrics } from '../../src/metrics.js';
import { checkRedis } from '../../src/operator/redisChecks.js';
import { closeDb, type Db, openDb } from '../../src/redis/connection/db.js';
import { checkMarks, markStore } from '../../src/redis/connection/mark.js';
import { nameIn, needed, servesCalls, tryNeeds } from '../../src/redis/connection/needs.js';
import type { RedisReason } from '../../src/redis/connection/unavailable.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { watchStoreHealth } from '../../src/storeMetrics.js';
import { newLink, Visitor } from '../console/visitor.js';
import { tried } from '../families.js';
import { openCli } from '../operator/cli.js';
import { startOwnRedis } from '../ownRedis.js';
import { startReceiver, until } from '../receiver.js';
import { forSuite, settings, useOpened } from '../servers.js';
import { keptLog, newCustomer, newToken, startHarness, tokenFields } from '../service.js';

describe('While a running Redis refuses', () => {
  const ofSuite = useOpened();
  const snapshot = 'snapshot.rdb';
  /** One slow command is no refusal. */
  const commandTimeoutMs = 10_000;
  const redis = forSuite(async () => ofSuite(await startOwnRedis(['--dbfilename', snapshot])));
  const direct = forSuite(() => ofSuite(new Redis(redis.url)));
  const { log, lines } = keptLog();
  const h = forSuite(async () => {
    await direct.call('ACL', 'SETUSER', 'limited', 'on', '>pw', '~*', '&*', '+@all');
    const own = { REDIS_URL: limited(), ACCOUNT_RATE_PER_SECOND: '10000', KEY_PREFIX: 'verdicts-' };
    const started = ofSuite(await startHarness(own, 'all', { log, commandTimeoutMs }));
    await started.startWorker();
    return started;
  });
  /** Of a process that nobody calls, as `watchStore` looks. */
  const idle = forSuite(async () => {
    const db = ofSuite(
      openDb({ url: limited(), prefix: 'verdicts-', settings, log, commandTimeoutMs }),
      closeDb,
    );
    await until('it is connected', async () => db.redis.status === 'ready');
    await markStore(db);
    return db;
  });
  const limited = () => redis.url.replace('//', '//limited:pw@');
  const set = (name: string, value: string | number) => direct.config('SET', name, value);
  const saved = (status: 'ok' | 'err') =>
    until(`the last snapshot: ${status}`, async () => {
      await direct.bgsave().catch(() => undefined);
      return (await direct.info('persistence')).includes(`rdb_last_bgsave_status:${status}`);
    });
  const serves = (db: Db) =>
    servesCalls(db).then(
      () => true,
      () => false,
    );

  /** Does what publishers do, and says what was done: `event` stands for what every event does, and for a token. */
  async function tryAll(customer: Awaited<ReturnType<typeof newCustomer>>) {
    const { client_token, token } = customer;
    const body = new URLSearchParams(tokenFields(customer));
    const asked = await fetch(`${h.url}/oauth/access_token`, { method: 'POST', body });
    const link = await newLink(h, token).catch(() => undefined);
    const click = link !== undefined && (await new Visitor(h.url).open(link)).status < 500;
    const event = { client_token, platform_id: randomUUID(), segments: ['a'] };
    const { status } = await customer.call('POST', '/enrichments', event);
    return { event: status < 500 && asked.status < 500, click };
  }

  async function isToldAsOurs(says: RegExp): Promise<void> {
    const cli = await openCli({ REDIS_URL: limited(), KEY_PREFIX: 'verdicts-' });
    const status = await cli.json('status');
    assert.equal(status.verdict, 'us');
    for (const text of [status.because, status.redis]) assert.match(text, says);
    assert.doesNotMatch(status.because, /in words that the service does not know/);
  }

  interface Row {
    reason: RedisReason;
    begin(): Promise<unknown>;
    end(): Promise<unknown>;
    /** A full Redis delivers: a balancer has no better process. */
    isReady?: boolean;
    /** What `status` says of it. */
    says?: RegExp;
  }

  const grant = (sign: '+' | '-', command: string) =>
    direct.call('ACL', 'SETUSER', 'limited', `${sign}${command.toLowerCase()}`);
  const commands = [
    ...new Set([...needed.map(nameIn), 'FCALL', 'FUNCTION', 'WAITAOF', 'ECHO', 'INFO', 'PUBLISH']),
  ];
  const rights = commands.map((command): [string, Row] => [
    command,
    { reason: 'right', begin: () => grant('-', command), end: () => grant('+', command) },
  ]);
  const others: Record<string, Row> = {
    'every write, as it is full': {
      reason: 'full',
      says: /Redis is full \(maxmemory\)\. Events, tokens and registrations are answered 503\./,
      begin: () => set('maxmemory', 1),
      end: () => set('maxmemory', 0),
      isReady: true,
    },
    'every write, as its disk failed': {
      reason: 'disk',
      says: /Redis refuses writes because its last write to disk failed\./,
      async begin() {
        // A snapshot cannot replace a folder.
        await mkdir(join(redis.dir, snapshot));
        await set('save', '3600 1');
        await saved('err');
      },
      async end() {
        await rmdir(join(redis.dir, snapshot));
        await saved('ok');
        await set('save', '');
      },
    },
    'every write, for want of replicas': {
      reason: 'replicas',
      says: /Redis refuses writes: too few replicas are connected \(min-replicas-to-write\)\./,
      begin: () => set('min-replicas-to-write', 1),
      end: () => set('min-replicas-to-write', 0),
    },
    'every write, as a replica': {
      reason: 'replica',
      says: /Redis refuses writes: it is a replica, and REDIS_URL must lead to the primary\./,
      begin: async () => direct.replicaof('127.0.0.1', await freePort()),
      end: () => until('it is the primary', () => direct.replicaof('NO', 'ONE').catch(() => false)),
    },
  };

  for (const [what, { reason, begin, end, isReady, says }] of [
    ...tried(rights, 4),
    ...Object.entries(others),
  ])
    it(`${what}: ready is what the next event finds, in a busy process and in an idle one`, async () => {
      const receiver = await startReceiver();
      const customer = await newCustomer(h, ['enrichments', 'push_notifications']);
      await customer.register(receiver.url);
      // Some events need more: by the state of the client, and the first in a process.
      await setPaused(h.db, customer.client_token, true);
      const event = { client_token: customer.client_token, platform_id: 'first', segments: ['a'] };
      await customer.call('POST', '/enrichments', event);
      const metrics = createMetrics();
      watchStoreHealth(metrics, h.db.health);
      lines.length = 0;
      await begin();
      try {
        const { event: isAccepted, click } = await tryAll(customer);
        await tryNeeds(idle, true)
          .then(() => checkMarks(idle))
          .catch(() => undefined);
        const expected = isReady ?? isAccepted;
        assert.equal(await serves(h.db), expected, `events ${isAccepted}, click ${click}`);
        assert.equal(await serves(idle), expected, 'idle');
        const found = await checkRedis(h.db, readConfig({})).catch(() => undefined);
        const levels = (found ?? []).filter(({ check }) => check === 'redis').map(({ level }) => level);
        assert.ok(found === undefined || levels.some((level) => level !== 'ok'), 'doctor');
        if (!isAccepted) assert.ok(found === undefined || levels.includes('fail'), 'doctor: events fail');
        assert.match(JSON.stringify(lines), new RegExp(`"reason":"${reason}"`), 'log');
        const shown = await metrics.registry.getSingleMetricAsString('asset_update_redis_refusing');
        assert.match(shown, new RegExp(`reason="${reason}"[^}]*} 1`), shown);
        const lesser = await metrics.registry.getSingleMetricAsString('asset_update_redis_refusing_lesser');
        assert.equal(/} 1/.test(lesser), isAccepted, lesser);
        if (says) await isToldAsOurs(says);
      } finally {
        await end();
      }
      await until('it serves again', async () => (await serves(h.db)) && (await serves(idle)));
      assert.ok(await newToken(h, customer));
      await tryNeeds(h.db);
      await tryNeeds(idle);
      assert.deepEqual([...h.db.health.reasons(), ...idle.health.reasons()], []);
      assert.deepEqual(await tryAll(customer), { event: true, click: true });
    });
});
