/** Processes that start on servers as others have them. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from '../local/ports.js';
import { tried } from './families.js';
import { openCli } from './operator/cli.js';
import { startOwnCluster, startOwnRedis } from './ownRedis.js';
import { beginService, built, refusalOf, startService } from './program.js';
import { newPublisher, publishOne } from './publisher.js';
import { startSentinel } from './redisSentinels.js';
import { startRespProxy } from './respProxy.js';
import { forSuite, opened, servers, uniquePrefix, useOpened } from './servers.js';

type OwnRedis = Awaited<ReturnType<typeof startOwnRedis>>;

describe('A process whose store cannot serve', () => {
  const ofSuite = useOpened();
  const redis = forSuite(async () => ofSuite(await startOwnRedis(['--databases', '1'])));
  const cluster = forSuite(async () => ofSuite(await startOwnCluster(10_000)));
  const direct = forSuite(() => ofSuite(new Redis(redis.url)));
  let sentinelPort: number;

  before(async () => {
    sentinelPort = await freePort();
    ofSuite(await startSentinel(redis.dir, redis.binary, sentinelPort, redis.port));
    await direct.config('SET', 'requirepass', 'the-password');
    await direct.call('ACL', ...'SETUSER limited on >pw ~* &* +@all -@blocking -function'.split(' '));
  });

  const at = (credentials: string, rest = '') => `redis://${credentials}127.0.0.1:${redis.port}${rest}`;
  const rows: Record<string, [url: () => string, named: RegExp, says?: RegExp]> = {
    'lacks rights': [
      () => at('limited:pw@'),
      /WAITAOF/,
      /user run FUNCTION, WAITAOF.*ACL SETUSER.*REDIS_DURABILITY=trusted: the service then answers without asking/,
    ],
    'lacks the database': [() => at(':the-password@', '/5'), /does not have the database/],
    'refuses the password': [() => at(':wrong@'), /refuses the user or the password/],
    'wants a password': [() => at(''), /refuses the user or the password/],
    'has no such user': [() => at('nobody:the-password@'), /refuses the user or the password/],
    'is a node of a cluster': [
      () => `redis://127.0.0.1:${cluster.nodes[0]?.server.port}`,
      /The server is a node of a cluster/,
      /The server is a node of a cluster\. Begin REDIS_URL with redis\+cluster:\/\//,
    ],
    'is no cluster': [
      () => `redis+cluster://:the-password@127.0.0.1:${redis.port}`,
      /a single Redis, not a node of a cluster/,
      /a single Redis, not a node of a cluster\. Begin REDIS_URL with redis:\/\//,
    ],
    'is no Redis': [() => `redis://${servers().temporalAddress}`, /What answers is no Redis/],
    'is no Redis, nor a cluster': [
      () => `redis+cluster://${servers().temporalAddress}`,
      /What answers is no Redis/,
    ],
    'is a Sentinel': [() => `redis://127.0.0.1:${sentinelPort}`, /Redis 7\.2, a Sentinel, or/],
    'is no Sentinel': [
      () => `redis+sentinel://127.0.0.1:${redis.port}/x?sentinel_password=the-password`,
      /names no Sentinels, or the Sentinels have no primary/,
    ],
    'is a Sentinel without the primary': [
      () => `redis+sentinel://127.0.0.1:${sentinelPort}/x`,
      /names no Sentinels, or the Sentinels have no primary/,
    ],
  };
  const chosen = tried(Object.entries(rows), 3);
  const ends = forSuite(() =>
    Object.fromEntries(chosen.map(([what, [url]]) => [what, refusalOf({ REDIS_URL: url() })])),
  );
  for (const [what, [url, named, says = named]] of chosen) {
    it(`ends in one message if it ${what}, and status and doctor say it`, async () => {
      const cli = await openCli({ REDIS_URL: url() });
      const [ended = '', status, doctor] = await Promise.all([
        ends[what],
        cli.run(['status']),
        cli.run(['doctor']),
      ]);
      assert.match(
        ended,
        /Redis at redis(\+cluster|\+sentinel)?:\/\/127\.0\.0\.1:\d+(\/5|\/x)? cannot serve:\n/,
      );
      assert.doesNotMatch(ended, /\n +at /, 'a stack');
      const said = [ended, `${status.stdout}${status.stderr}`, `${doctor.stdout}${doctor.stderr}`];
      assert.match(ended, says);
      for (const text of said) assert.match(text, named, text);
      assert.match(said[1] ?? '', /^It is us\. /);
      assert.equal(doctor.status, 1);
      for (const text of said) assert.doesNotMatch(text, /the-password|wrong/);
    });
  }

  it('starts with a trusted store that cannot confirm writes', async () => {
    await direct.call('ACL', 'SETUSER', 'limited', '+function');
    const service = await startService({ REDIS_URL: at('limited:pw@'), REDIS_DURABILITY: 'trusted' });
    assert.equal(await service.stop(), 0);
  });
});

describe('A process that cannot listen', () => {
  const cannot = 'says so in one sentence, with';
  const noPort =
    /ended: cannot listen on \S+, port \d+: .*\. HOST, PORT, ADMIN_HOST and ADMIN_PORT say where\.\n/;
  const rows: Record<string, [env: () => Record<string, string>, says: RegExp]> = {
    [`${cannot} PORT`]: [() => ({ PORT: String(servers().temporalAddress.split(':')[1]) }), noPort],
    [`${cannot} HOST`]: [
      () => ({ HOST: 'nosuch.invalid' }),
      /the name cannot be looked up\. HOST, PORT, .* say where/,
    ],
    [`${cannot} ADMIN_HOST`]: [() => ({ ADMIN_HOST: '192.0.2.1' }), noPort],
    'or read the certificates of receivers ends before it waits for Redis': [
      () => ({ TRUSTED_ROOTS_FILE: '/nowhere', REDIS_URL: 'redis://127.0.0.1:1' }),
      /ended: wrong settings:\n {2}TRUSTED_ROOTS_FILE: /,
    ],
  };
  const ends = forSuite(() =>
    Object.fromEntries(Object.entries(rows).map(([what, [env]]) => [what, refusalOf(env())])),
  );
  for (const [what, [, says]] of Object.entries(rows))
    it(what, async () => assert.match((await ends[what]) ?? '', says));
});

describe('Redis 7.0, as Debian 12 has it', () => {
  const binary = 'redis-server-7.0';
  let redis: OwnRedis;
  before(async function () {
    if (spawnSync(binary, ['--version']).status !== 0) this.skip();
    redis = await startOwnRedis([], undefined, binary);
  });
  after(() => redis?.stop());

  it('cannot confirm writes: a start is refused, and works with a trusted store', async () => {
    const env = { REDIS_URL: redis.url };
    await assert.rejects(
      startService(env),
      /cannot serve:\n +The server refuses WAITAOF: it is older than Redis 7\.2.*REDIS_DURABILITY=trusted/,
    );
    const service = await startService({ ...env, REDIS_DURABILITY: 'trusted' });
    await publishOne(await newPublisher(service, redis.url));
    const cli = await openCli({ ...env, KEY_PREFIX: service.prefix, TASK_QUEUE: service.taskQueue });
    assert.match((await cli.run(['doctor'])).stdout, /^fail .*refuses WAITAOF/m);
    const trusted = await cli.run(['doctor'], {
      env: { REDIS_DURABILITY: 'trusted', SECRETS_KEY: `k1:${service.secretsKey}` },
    });
    assert.equal(trusted.status, 0, trusted.stdout);
    assert.equal(await service.stop(), 0);
  });
});

describe('A process whose store is away when it starts', () => {
  it('answers 503 with the reason in /readyz and the log, serves once the store comes', async () => {
    const port = await freePort();
    const env = { REDIS_URL: `redis://127.0.0.1:${port}` };
    const patient = await beginService(env);
    await patient.says(/waiting for Redis/);
    const ready = await fetch(`${patient.url}/readyz`);
    assert.deepEqual(
      [ready.status, await ready.json()],
      [503, { status: 'not ready', redis: false, temporal: true, reasons: ['away'] }],
    );
    assert.equal((await fetch(`${patient.url}/healthz`)).status, 200);
    const call = await fetch(`${patient.url}/oauth/access_token`, { method: 'POST' });
    assert.deepEqual([call.status, Boolean(call.headers.get('retry-after'))], [503, true]);
    assert.equal((await fetch(`${patient.adminUrl}/desk`)).status, 503);
    const metrics = await (await fetch(`${patient.adminUrl}/metrics`)).text();
    for (const role of ['asset_update_updates_waiting_calls', 'asset_update_upkeep_under_way'])
      assert.match(metrics, new RegExp(`^${role} 0$`, 'm'), 'an alert sees that the role is there');
    opened(await startOwnRedis([], port));
    await patient.until('it serves', async () => (await fetch(`${patient.url}/readyz`)).ok);
    assert.equal(await patient.stop(), 0);
  });

  it('says in /readyz what the store refuses, while it waits, and ends at SIGTERM', async () => {
    const redis = opened(await startOwnRedis());
    const proxy = opened(await startRespProxy(redis.url));
    proxy.refused.set('ZADD', 'ERR computer says no');
    const service = await beginService({ REDIS_URL: proxy.url });
    await service.says(/waiting for Redis/);
    const ready = await fetch(`${service.url}/readyz`);
    assert.deepEqual(
      [ready.status, await ready.json()],
      [503, { status: 'not ready', redis: false, temporal: true, reasons: ['refused'] }],
    );
    assert.equal(await service.stop(), 0);
  });

  it('serves although the store asks for no password, which its log says, and ends at SIGTERM if the store has left', async () => {
    const redis = await startOwnRedis();
    const service = await startService({ REDIS_URL: redis.url.replace('//', '//:pw@') });
    assert.doesNotMatch(service.stdout, /credentials/);
    assert.match(service.stdout, /"msg":"[^"]*does not require a password/);
    assert.equal(service.stderr, '');
    await redis.stop();
    assert.equal(await service.stop(), 0);
  });
});

describe('A process whose log', () => {
  const outputs: Record<string, string> = {
    'finds no room on its disk': '> /dev/full',
    'is a pipe that nobody reads': '1<> "$0"; rm "$0"',
  };
  for (const [what, output] of tried(Object.entries(outputs), 2)) {
    it(`${what} serves, ends at SIGTERM`, async function () {
      if (!existsSync('/dev/full')) this.skip();
      const run = `mkfifo "$0"; exec ${output}; exec "$@"`;
      const command = ['sh', '-c', run, join(tmpdir(), uniquePrefix()), ...built];
      const service = await startService({}, 'all', { command });
      // Each is a line of the log: more than a pipe takes.
      for (let i = 0; i < 600; i++) await (await fetch(`${service.url}/nowhere`)).text();
      assert.equal(await service.stop(), 0);
      assert.equal(service.said(), '');
    });
  }
});

it('A process that may open few files takes fewer connections, and says both', async () => {
  const command = ['sh', '-c', 'ulimit -n 400; exec "$0" "$@"', ...built];
  const service = await beginService({}, 'all', { command });
  await service.says(/"open_files":400,.*\n(.*\n)*.*"ready"/);
  const sockets = Array.from({ length: 400 }, () => connect(Number(new URL(service.url).port), '127.0.0.1'));
  for (const socket of sockets) socket.on('error', () => undefined);
  await service.says(/"open":236,.*further connections are closed/);
  for (const socket of sockets) socket.destroy();
  assert.equal(await service.stop(), 0);
});

it('A process that meets an error that nobody handles ends with its text, without what it carries', async () => {
  const error = 'Object.assign(new Error("met"),{command:{args:["hid"+"den"]}})';
  // Once the process listens.
  const code = `setInterval(()=>process.getActiveResourcesInfo().includes("TCPServerWrap")&&Promise.reject(${error}),50)`;
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(code)}`;
  const service = await beginService({ NODE_OPTIONS });
  assert.equal(await service.ended, 1);
  assert.match(service.stderr, /^Error: met\n +at /);
  assert.doesNotMatch(service.said(), /hidden/);
});

it('A process that is told to end while its modules load ends in order: as the first of a container it would otherwise run on', async () => {
  // Once the program handles errors, which it does before it loads the service.
  const code = `const timer=setInterval(()=>process.listenerCount("uncaughtException")&&(clearInterval(timer),process.kill(process.pid)),1)`;
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(code)}`;
  const service = await beginService({ NODE_OPTIONS });
  assert.equal(await service.ended, 0);
  const said = [...service.said().matchAll(/"msg":"(.*)"/g)].map(([, words]) => words);
  assert.deepEqual(said.sort(), ['ended', 'ending']);
});

describe('A process that npm started', () => {
  for (const role of tried(['all', 'api', 'worker'] as const, 3)) {
    it(`ends in order when npm is told to end, once or twice: ${role}`, async () => {
      const command = ['npm', 'run', '-s'];
      const npm = await beginService({ SHUTDOWN_DELAY_SECONDS: '1' }, role, { command });
      await npm.says(/"ready"/);
      const metrics = await (await fetch(`${npm.adminUrl}/metrics`)).text();
      const isApi = metrics.includes('\nasset_update_updates_waiting_calls 0');
      assert.equal(isApi, role !== 'worker', 'an alert sees that the last API is gone');
      void npm.stop();
      await npm.says(/"ending"/);
      await npm.stop();
      assert.match(npm.stdout, /"ended"/);
    });
  }
});
