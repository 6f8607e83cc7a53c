/** Every command of the service, refused one at a time. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis, ReplyError } from 'ioredis';
import { freePort } from '../../local/ports.js';
import { readConfig } from '../../src/config.js';
import { projectDir } from '../../src/operator/npmStart.js';
import { checkRedis } from '../../src/operator/redisChecks.js';
import { closeDb, type Db, openDb } from '../../src/redis/connection/db.js';
import { library } from '../../src/redis/connection/library.js';
import { markStore } from '../../src/redis/connection/mark.js';
import {
  nameIn,
  needed,
  servesCalls,
  tryNeeds,
  untilServed,
  watchStore,
} from '../../src/redis/connection/needs.js';
import { explainRefusals, type RedisReason, refusalOf } from '../../src/redis/connection/unavailable.js';
import { forgetAsset } from '../../src/redis/notifications/decisions.js';
import { joinStore } from '../../src/redis/records/installation.js';
import type { tried } from '../families.js';
import { openCli } from '../operator/cli.js';
import { startOwnRedis } from '../ownRedis.js';
import { whileStopped } from '../program.js';
import { startReceiver, until } from '../receiver.js';
import { startRespProxy, type Words } from '../respProxy.js';
import { dbWith, forSuite, opened, settings, useOpened } from '../servers.js';
import { keptLog, startHarness } from '../service.js';

const unscripted = ['ECHO', 'FCALL', 'FUNCTION', 'INFO', 'PSUBSCRIBE', 'PUBLISH', 'WAITAOF'];
/** The commands that the service needs of every store; a cluster needs CLUSTER too, and SEGMENT_RETENTION_DAYS needs HEXPIRE. */
const neededCommands = [...new Set([...needed.map(nameIn), ...unscripted])].sort();
const unknown = (command: string) => `ERR unknown command '${command}', with args beginning with: 'secret' `;
const unheardOf = 'ERR computer says no to secret';

/** As providers, other servers and proxies word it (Alibaba, Upstash, Codis, Envoy, predixy, twemproxy, Kvrocks); `X`: the command. */
const families: Partial<Record<RedisReason, string[]>> = {
  command: [
    "ERR Command is not available: 'X'. See https://example.com/compatibility",
    'ERR unknown command `X`, with args beginning with: `secret`',
    'ERR unknown command',
    "unsupported command 'X'",
    'invalid request',
    "ERR handle request, command 'X' is not allowed",
    "ERR command 'X' not support for your account",
    'ERR command X not support for normal user',
    'ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array',
    'ERR Forbidden Command: X',
    'ERR command forbid',
    'ERR This command is blocked',
    'ERR X is disabled',
  ],
  right: [
    "NOPERM this user has no permissions to run the 'X' command",
    "NOPERM User secret has no permissions to run the 'X' command",
    'ERR auth permission deny',
    'ERR access denied',
    'ERR operation not permitted',
    'ERR admin permission required to perform the command',
  ],
  address: ['ERR illegal address: 192.0.2.1:39136', 'ERR client ip is not in whitelist'],
  credentials: [
    'NOAUTH Authentication required.',
    'WRONGPASS invalid or missing auth token',
    'ERR invalid password',
    'ERR AUTH failed: secret',
    'ERR token has expired',
  ],
  limit: [
    'ERR max requests limit exceeded. Limit: 500000, Usage: 500000. See https://example.com/limit',
    'ERR max daily request limit exceeded. Limit: 10000, Usage: 10000',
    'ERR max number of requests per day exceeded',
    'ERR max request size exceeded',
    'ERR max single record size exceeded',
    'ERR max key size exceeded. Limit: 32768 bytes, Actual: 40000 bytes',
    'ERR request refused, too many pending request, now count 20001, beyond threshold 20000',
    'ERR rate limit exceeded',
    'ERR rate limited',
    'ERR over quota',
    'ERR throttled',
    'ERR This instance is suspended',
    "NOWRITE You can't write against a non-write redis",
    "NOREAD You can't read against a non-read redis",
  ],
  full: [
    'ERR DB capacity quota exceeded',
    'ERR max data size exceeded. Limit: 268435456 bytes, Usage: 268435457 bytes',
    'ERR storage is full',
    'ERR Space limit: reached the max database size',
  ],

  refused: [unheardOf],
  connections: ['ERR max number of clients reached', 'ERR max concurrent connections exceeded'],
  replica: ["ERR READONLY you can't write against a read only instance"],
  cluster: [
    "CROSSSLOT Keys in request don't hash to the same slot",
    'ERR X command keys must be in same slot',
  ],
  not_ready: [
    'no upstream host',
    'upstream failure',
    'ERR no server avaliable',
    'ERR server connection close',
    'ERR deliver request fail',
    'ERR handle response, backend conn failure, EOF',
    'ERR handle request, slot is not ready, may be offline',
    'ERR router is not online',
    'ERR Connection refused',
    'ERR Connection timed out',
    'ERR Host is down',
    'ERR redis temporary failure (ErrorCode 7002)',
    'LOADING kvrocks is restoring the db from backup',
  ],
};

const served = (db: Db) => untilServed(db, 'here', new AbortController().signal);

describe('A command that the store refuses', () => {
  const ofSuite = useOpened();
  const server = forSuite(async () => ofSuite(await startOwnRedis()));
  const proxy = forSuite(async () => ofSuite(await startRespProxy(server.url)));
  const direct = forSuite(() => ofSuite(new Redis(server.url)));
  let db: Db;
  const { log, lines } = keptLog();
  const asUser = () => `redis://limited:pw@127.0.0.1:${server.port}`;
  // One slow command is no refusal.
  const open = (url: string) => openDb({ url, prefix: 'needs-', settings, log, commandTimeoutMs: 3_000 });

  const openForTest = (url: string) => opened(open(url), closeDb);
  async function openServed(url: string): Promise<Db> {
    const own = openForTest(url);
    await served(own);
    return own;
  }

  before(async () => {
    await direct.call('ACL', 'SETUSER', 'limited', 'on', '>pw', '~*', '&*', '+@all');
    db = ofSuite(open(proxy.url), closeDb);
    await served(db);
    await markStore(db);
  });

  it('is among those that are tried, whichever the code or a script sends', async () => {
    const known = new Set((await direct.call('COMMAND', 'LIST')) as string[]);
    const files = readdirSync(join(projectDir, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join(projectDir, 'src', name));
    const call = /\b(?:redis|server|node|own)\.(?:call\(')?(\w+?)(?:Stream)?\b/gi;
    const sent = files.flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(call)].map(([, name]) => String(name).toLowerCase()),
    );
    const used = new Set([
      ...sent.filter((name) => known.has(name)).map((name) => name.toUpperCase()),
      ...[...library.matchAll(/call\('([A-Z]+)'/g)].map(([, name]) => String(name)),
    ]);
    // Only doctor asks CONFIG, and does without it; HEXPIRE is for a setting.
    const missing = [...used].filter((name) => ![...neededCommands, 'CONFIG', 'HEXPIRE'].includes(name));
    assert.ok(used.size > 40, `${used.size} were found`);
    assert.deepEqual(missing, []);
  });

  /** What the log, `status` and `doctor` say of what is refused. */
  async function heard(tried: Db) {
    const findings = await checkRedis(tried, readConfig({}));
    const amiss = findings.filter(({ level }) => level !== 'ok').map((one) => `${one.found} ${one.do}`);
    return { found: tried.health.refused(), said: JSON.stringify(lines), amiss: amiss.join('\n') };
  }

  function check({ found, said, amiss }: Awaited<ReturnType<typeof heard>>, command: string, reason: string) {
    assert.ok(
      found.some((one) => one.reason === reason && one.command === command),
      `${command}: ${JSON.stringify(found)}`,
    );
    for (const text of [said, amiss]) {
      assert.match(text, new RegExp(`\\b${command}\\b`), `${command}: ${text}`);
      assert.doesNotMatch(text, /secret/, 'words of a stranger');
    }
    if (command === 'WAITAOF' && reason !== 'limit' && reason !== 'refused')
      assert.match(amiss, /REDIS_DURABILITY=trusted/);
  }

  it('is named in log, status and doctor, whichever it is, also where the answer is empty', async () => {
    // ioredis cannot read an empty answer to a subscription.
    const empty = neededCommands.filter((command, i) => i % 8 === 0 && command !== 'PSUBSCRIBE');
    const tried: [commands: string[], says: (command: string) => Words][] = [
      ...Array.from({ length: 8 }, (_, n): (typeof tried)[0] => [
        neededCommands.filter((_, i) => i % 8 === n),
        unknown,
      ]),
      ...empty.map((command): (typeof tried)[0] => [[command], () => []]),
    ];
    for (const [commands, says] of tried) {
      lines.length = 0;
      for (const command of commands) proxy.refused.set(command, says(command));
      const all = await heard(db).finally(() => proxy.refused.clear());
      for (const command of commands) check(all, command, 'command');
    }
    assert.deepEqual(await tryNeeds(db), [], 'nothing is refused any more');
  }).timeout(60_000);

  for (const [reason, wordings] of Object.entries(families))
    it(`in words of providers and proxies is named with its reason in log, status and doctor: ${reason}`, async () => {
      const [{ says } = { says: '' }] = explainRefusals([{ reason: reason as RedisReason, command: 'X' }]);
      const isTold = (words: string, text = '') => {
        assert.ok(text.includes(says.replace('X', 'HSET')), `${words}: ${text}`);
        assert.doesNotMatch(text, /secret|192\.0\.2/, 'words of a stranger');
      };
      const [first = ''] = wordings;
      lines.length = 0;
      proxy.refused.set('HSET', first.replaceAll('X', 'HSET'));
      const { said, amiss } = await heard(db).finally(() => proxy.refused.clear());
      for (const text of [said, amiss]) isTold(first, text);
      assert.deepEqual(await tryNeeds(db), [], 'nothing is refused any more');
      for (const words of wordings) {
        const err = new ReplyError(words.replaceAll('X', 'HSET'));
        isTold(
          words,
          explainRefusals([refusalOf(Object.assign(err, { command: { name: 'hset' } }))])[0]?.says,
        );
      }
    }).timeout(60_000);

  it('ends no start if it is INFO, and is told', async () => {
    await direct.call('ACL', 'SETUSER', 'limited', '-info');
    lines.length = 0;
    try {
      check(await heard(await openServed(asUser())), 'INFO', 'right');
    } finally {
      await direct.call('ACL', 'SETUSER', 'limited', '+info');
    }
  });

  it('ends the start if it is SELECT: nothing is kept in database 0 instead', async () => {
    for (const [words, says] of [
      [unknown('SELECT'), /\bSELECT\b/],
      ["NOPERM this user has no permissions to run the 'select' command", /\bSELECT\b/],
      ['ERR value is not an integer or out of range', /does not have the database/],
    ] as const) {
      proxy.refused.set('SELECT', words);
      const own = openDb({ url: `${proxy.url}/1`, prefix: 'database-', settings, log });
      try {
        await assert.rejects(served(own), says);
      } finally {
        closeDb(own);
        proxy.refused.clear();
      }
    }
    assert.deepEqual(await direct.keys('database-*'), []);
  });

  it('is none for a user with the rights of docs/reference/needs.md', async () => {
    const page = readFileSync(join(projectDir, 'docs/reference/needs.md'), 'utf8');
    const line = String(/^ACL SETUSER asset-update .*$/m.exec(page))
      .replaceAll('PREFIX', 'acl-')
      .replace('PASSWORD', 'pw');
    const [, ...words] = line.split(' ');
    await direct.call('ACL', ...words);
    const settings = { REDIS_URL: `redis://asset-update:pw@127.0.0.1:${server.port}/1`, KEY_PREFIX: 'acl-' };
    const h = opened(await startHarness(settings));
    await served(h.db);
    await h.startWorker();
    const receiver = await startReceiver();
    const client = await h.newClient(receiver.url);
    const { id } = await h.publish({ client, asset: 'vid-1' });
    await h.delivered(client, id);
    await h.sweep();
    await assert.rejects(new Redis(settings.REDIS_URL, { retryStrategy: () => null }).flushall(), /NOPERM/);
  });

  it('is none while other processes try the same', async () => {
    const all = Array.from({ length: 4 }, () => openForTest(server.url));
    await Promise.all(
      all.map(async (one) => {
        await served(one);
        for (let i = 0; i < 10; i++) assert.deepEqual(await tryNeeds(one), []);
      }),
    );
    const withoutEnd = -1;
    for (const key of await direct.keys('needs-need-*'))
      assert.notEqual(await direct.ttl(key), withoutEnd, key);
  });

  it('in a script is named itself, at once, and not the script', async () => {
    const own = await openServed(asUser());
    await direct.call('ACL', 'SETUSER', 'limited', '-srem');
    await assert.rejects(forgetAsset(own, 'SITE', 'video'));
    await direct.call('ACL', 'SETUSER', 'limited', '+srem');
    assert.deepEqual(own.health.refused(), [{ reason: 'right', command: 'SREM', server: '' }]);
  });

  for (const command of ['PUBLISH', 'ECHO'])
    it(`without which calls go on is named, and stops no call: ${command}`, async () => {
      const own = await openServed(asUser());
      watchStore(own, 50);
      await direct.call('ACL', 'SETUSER', 'limited', `-${command.toLowerCase()}`);
      lines.length = 0;
      await until('it is known', async () => own.health.reasons().includes('right'));
      assert.match(JSON.stringify(lines), new RegExp(`"commands":\\["${command}"\\]`));
      await direct.call('CLIENT', 'KILL', 'USER', 'limited');
      await until('new connections serve', () =>
        own.durably((durable) => durable.redis.set('needs-write', '')).safe.catch(() => false),
      );
      await servesCalls(own);
      assert.deepEqual(
        (await checkRedis(own, readConfig({})))
          .filter(({ found }) => found.includes(command))
          .map(({ level }) => level),
        ['warn'],
      );
      await direct.call('ACL', 'SETUSER', 'limited', `+${command.toLowerCase()}`);
      await until('it is allowed again', async () => own.health.reasons().length === 0);
    });

  for (const [reason, words = ''] of Object.entries({ refused: unheardOf, limit: families.limit?.[0] }))
    it(`is every one, as by a proxy whose store is away: nothing serves, for that reason: ${reason}`, async () => {
      const own = await openServed(proxy.url);
      for (const command of neededCommands) proxy.refused.set(command, words);
      await assert.rejects(servesCalls(own));
      proxy.refused.clear();
      assert.deepEqual(own.health.reasons(), [reason]);
    });

  it('is every write, at once, while only connections that confirm writes find no place (maxclients)', async () => {
    const own = await openServed(server.url);
    watchStore(own, 500);
    const kept = await Promise.all([own.redis, direct].map((one) => one.call('CLIENT', 'ID')));
    const all = String(await direct.call('CLIENT', 'LIST')).matchAll(/^id=(\d+)/gm);
    await direct.config('SET', 'maxclients', kept.length);
    lines.length = 0;
    try {
      for (const [, id] of all)
        if (!kept.includes(Number(id))) await direct.call('CLIENT', 'KILL', 'ID', `${id}`);
      await until('it is known', async () => own.health.reasons().includes('connections'));
      assert.match(JSON.stringify(lines), /accepts no further connections \(maxclients\)/);
      await assert.rejects(servesCalls(own));
      const cli = await openCli({ REDIS_URL: server.url });
      const told = await Promise.all(['status', 'doctor'].map((command) => cli.run([command])));
      for (const { stdout, stderr } of told)
        assert.match(stdout + stderr, /accepts no further connections \(maxclients\)/);
    } finally {
      await direct.config('SET', 'maxclients', 10_000);
    }
    await until('it serves again', async () => own.health.reasons().length === 0);
  });

  it('is every command, while no Sentinel answers', async () => {
    const own = openForTest(`redis+sentinel://127.0.0.1:${await freePort()}/x`);
    lines.length = 0;
    await until('it is known', async () => own.health.reasons().includes('silent'));
    assert.match(JSON.stringify(lines), /or to any Sentinel/);
  });

  it('never leads to "All is well"', async () => {
    const cli = await openCli({ REDIS_URL: proxy.url, KEY_PREFIX: 'needs-' });
    for (const [command, words] of [
      ['WAITAOF', 'ERR Command is not available'],
      ['HSET', 'NOPERM no'],
      ['INFO', 'ERR unknown command'],
      ['ZSCAN', 'ERR nothing that anybody has read before'],
    ] as const) {
      proxy.refused.set(command, words);
      const ran = await cli.run(['status']);
      proxy.refused.clear();
      assert.match(ran.stdout + ran.stderr, new RegExp(`^It is us\\. [^]*${command}`));
    }
  });
});

describe('A store that refuses writes', () => {
  let db: Db;
  const { log, lines } = keptLog();
  const ofSuite = useOpened();
  const server = forSuite(async () => ofSuite(await startOwnRedis()));
  before(async () => {
    db = ofSuite(
      openDb({ url: server.url, prefix: 'needs-', settings, log, commandTimeoutMs: 3_000 }),
      closeDb,
    );
    await served(db);
    await markStore(db);
  });

  it('only once a start has seen that it serves is waited for, and if it is full it gets no mark yet', async () => {
    const own = openDb({ url: server.url, prefix: 'blinks-', settings, log });
    opened(own, closeDb);
    const said = ['LOADING Redis is loading the dataset in memory', 'OOM command not allowed'];
    const once = { setnx: async () => Promise.reject(new ReplyError(said.shift())) };
    const starting = joinStore(dbWith(own, once), readConfig({}), log, new AbortController().signal);
    assert.equal((await starting).open('plain:a', ''), 'a');
    assert.deepEqual([said, own.health.marks.size, own.health.isEmptied], [[], 0, false]);
    await joinStore(own, readConfig({}), log, new AbortController().signal);
    assert.equal(own.health.marks.size, 1);
  });

  const set = (name: string, value: string | number) => db.redis.config('SET', name, value);
  const isWell = async () => (await tryNeeds(db)).length + db.health.reasons().length === 0;

  it('because nobody has given the new password is named by that alone, whatever was under way', async () => {
    const direct = opened(new Redis(server.url));
    await direct.config('SET', 'requirepass', 'new');
    await direct.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    try {
      await until('it is known', async () => db.health.reasons().includes('credentials'));
      // Of strangers Redis does not even read as many words as this.
      await until('it refuses a long call', () =>
        db.redis.call('FCALL', 'none', 0, ...Array<string>(20).fill('')).then(
          () => false,
          (err) => err.name === 'ReplyError',
        ),
      );
      assert.deepEqual(db.health.reasons(), ['credentials']);
    } finally {
      await direct.config('SET', 'requirepass', '');
    }
    await until('it accepts them', isWell);
  });

  it('has not accepted them again only because it does not answer', async () => {
    await set('maxmemory', 1_000_000);
    await until('it is known', async () => (await tryNeeds(db)).some(({ reason }) => reason === 'full'));
    lines.length = 0;
    await whileStopped(server.pid, async () => {
      await assert.rejects(db.durably(({ redis }) => redis.set('needs-write', '')).safe);
      await tryNeeds(db);
      assert.deepEqual(db.health.reasons(), ['timeout', 'full']);
    });
    assert.doesNotMatch(JSON.stringify(lines), /no longer refuses/);
    await until('it has memory', () => set('maxmemory', 0).catch(() => false));
    await until('it accepts them', isWell);
    assert.match(JSON.stringify(lines), /no longer refuses/);
  });

  it('some day, because it evicts keys instead, is told at once and once', async () => {
    lines.length = 0;
    await set('maxmemory-policy', 'allkeys-lru');
    for (let i = 0; i < 3; i++) await tryNeeds(db);
    await set('maxmemory-policy', 'noeviction');
    const told = lines.filter((line) => /evicts keys when it is full/.test(JSON.stringify(line)));
    assert.equal(told.length, 1);
  });
});
