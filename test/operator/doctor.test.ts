import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { ScheduleUpdateOptions } from '@temporalio/client';
import { Redis } from 'ioredis';
import type { RedisServer } from '../../local/redis.js';
import { readConfig } from '../../src/config.js';
import { noticesClient } from '../../src/ids.js';
import { createLogger } from '../../src/log.js';
import { doctor } from '../../src/operator/doctor.js';
import type { Operator } from '../../src/operator/operation.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { rotateSigningSecret } from '../../src/redis/records/secrets.js';
import { createSweepSchedule } from '../../src/temporal/sweepSchedule.js';
import { startGrpcProxy, status } from '../grpcProxy.js';
import { issueCertificate } from '../outgoing/certificates.js';
import { startOwnCluster, startOwnRedis } from '../ownRedis.js';
import { portOf, succeeds, until } from '../receiver.js';
import { afterTest, forSuite, opened, openForSuite, servers, uniquePrefix } from '../servers.js';
import { startWithWorker } from '../service.js';
import { openCli, type Ran, registeredClient } from './cli.js';

interface Examined {
  level: string;
  findings: { check: string; level: string; found: string; do: string | null }[];
}

describe('operator doctor', () => {
  const h = forSuite(() => startWithWorker());
  const cli = forSuite(() =>
    openCli({
      KEY_PREFIX: h.db.prefix,
      TASK_QUEUE: h.taskQueue,
      ALLOW_HTTP_TARGETS: '',
      ALLOWED_TARGET_CIDRS: '',
    }),
  );
  before(() => createSweepSchedule(h.temporal, h.taskQueue, createLogger('silent', 'test')).ensure());
  after(async () => {
    await h.temporal.schedule.getHandle(`sweep/${h.taskQueue}`).delete();
    await h.close();
  });

  it('ends with exit status 0 if nothing fails', async () => {
    const { ran, examined } = await examine();
    assert.deepEqual([ran.status, ran.stderr], [0, '']);
    const levels = examined.findings.map(({ level }) => level);
    assert.deepEqual(levels, Array(15).fill('ok'));
    assert.equal(examined.level, 'ok');
  });

  it('tries the proxy to receivers, and shows no password', async () => {
    const env = { OUTGOING_PROXY: 'http://me:hidden-password@127.0.0.1:9', SOURCE_ADDRESSES: '198.51.100.7' };
    const { ran, finding } = await examine(env);
    assert.equal(ran.status, 1);
    assert.match(finding('settings OUTGOING_PROXY')?.found ?? '', /it cannot be reached/);
    assert.equal(finding('settings SOURCE_ADDRESSES')?.level, 'ok');
    assert.ok(!`${ran.stdout}${ran.stderr}`.includes('hidden-password'));
  });

  const rules: [what: string, refuses: number | undefined, level: string, found: RegExp][] = [
    [
      'leads to the operators’ port',
      undefined,
      'fail',
      /leads to the operators' port \(ADMIN_PORT\) at .*localhost/,
    ],
    ['only finds no way there', 502, 'warn', /tries loopback addresses/],
    ['refuses it', 403, 'ok', /refuses the operators' port/],
  ];
  for (const [what, refuses, level, says] of rules)
    it(`tries a proxy that looks names up with the operators’ port, and names the rule if it ${what}`, async () => {
      const asked: string[] = [];
      const proxy = createServer().on('connect', ({ url = '' }, socket) => {
        asked.push(url);
        const status = url.endsWith(':1') ? 403 : (refuses ?? 200);
        socket.end(`HTTP/1.1 ${status} x\r\n\r\n`);
      });
      const port = await portOf(proxy);
      const env = {
        OUTGOING_PROXY: `http://127.0.0.1:${port}`,
        OUTGOING_PROXY_RESOLVES: 'true',
        ADMIN_PORT: '9999',
      };
      const {
        level: found,
        found: said = '',
        do: todo,
      } = (await examine(env)).finding('settings OUTGOING_PROXY_RESOLVES') ?? {};
      proxy.close();
      assert.equal(found, level);
      assert.match(said, says);
      assert.equal(todo?.includes('http_access deny private'), level === 'ok' ? undefined : true);
      assert.ok(asked.includes('localhost:9999') && asked.includes('[::1]:9999'), asked.join(' '));
    });

  it('prints for people a line for each check, then what to do', async () => {
    const ran = await cli.run(['doctor'], { env: { SECRETS_KEY: '' } });
    assert.equal(ran.status, 0, ran.stderr);
    assert.match(ran.stdout, /^ok {2,}redis persistence {2,}appendonly yes, appendfsync always/m);
    assert.match(ran.stdout, /^warn {2,}settings SECRETS_KEY /m);
    assert.match(ran.stdout, /What to do:\n[\s\S]* {2}settings SECRETS_KEY: Set SECRETS_KEY to /);
  });

  it('fails at secrets that are gone or whose key is missing, of a client and of notices, among however many clients, and shows none', async () => {
    const { account_id } = await createAccount(h.db, { name: 'Acme' });
    const sealed = await registeredClient({ db: h.db }, account_id, 'SEALED', 'https://example.com/');
    const box = createSecretBox([{ id: 'k9', key: Buffer.alloc(32, 9) }]);
    await rotateSigningSecret(h.db, box, sealed, { now: true });
    const { ran, finding } = await examine();
    assert.equal(ran.status, 1);
    assert.match(finding('redis signing secrets')?.found ?? '', /does not decrypt those of SEALED\.$/);
    const others = Array.from({ length: 3000 }, (_, i) => `other-${i}`);
    await h.db.redis.sadd(h.db.global.clients, others);
    await setNoticesUrl(h.db, box, account_id, 'https://example.com/');
    const { found = '' } = (await examine()).finding('redis signing secrets') ?? {};
    await h.db.redis.srem(h.db.global.clients, others);
    assert.match(found, new RegExp(`notices:${account_id}`));
    const clients = [sealed, noticesClient(account_id)].map((client) => h.db.client(client));
    for (const { signingSecrets } of clients) await h.db.redis.del(signingSecrets);
    const none = (await examine()).finding('redis signing secrets');
    for (const { registration } of clients) await h.db.redis.del(registration);
    assert.equal(none?.level, 'fail');
    assert.match(none.found, /^There is none of (?=.*SEALED).*notices:/);
  });

  it('warns of a Redis beyond this machine without a password, whatever it is', async () => {
    const closed = ['127.0.0.1', 'user@127.0.0.1', ':pw@0.0.0.0', 'user:pw@0.0.0.0'];
    for (const kind of ['', '+cluster', '+sentinel'])
      for (const at of [...closed, '0.0.0.0', 'user@0.0.0.0']) {
        const level = closed.includes(at) ? undefined : 'warn';
        const url = `redis${kind}://${at}:6379${kind === '+sentinel' ? '/name' : ''}`;
        assert.equal(await levelOf('settings REDIS_URL', { REDIS_URL: url }), level, url);
      }
  });

  it('says until when the certificates for Temporal are valid: its own, and the last authority', async () => {
    const pem = (untilDays: number) => issueCertificate({ name: 'us', untilDays }).cert;
    const days: [own: number, authorities: number[], level: string][] = [
      [6, [], 'warn'],
      [-0.5, [8], 'fail'],
      [8, [-0.5, 8], 'ok'],
      [8, [-0.5, 6], 'warn'],
    ];
    for (const [ownDays, authorityDays, level] of days) {
      const own = issueCertificate({ name: 'us', untilDays: ownDays });
      const env = {
        TEMPORAL_TLS_CLIENT_CERT_DATA: own.cert,
        TEMPORAL_TLS_CLIENT_KEY_DATA: own.key,
        TEMPORAL_TLS_SERVER_CA_CERT_DATA: authorityDays.map(pem).join(''),
      };
      assert.equal(await levelOf('settings TEMPORAL_TLS', env), level, `${ownDays}, ${authorityDays}`);
    }
  });

  const lacksAttributes = async () => {
    const namespace = uniquePrefix();
    const { workflowService } = h.temporal;
    const workflowExecutionRetentionPeriod = { seconds: 86_400 as never };
    await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
    await until('it is known', () => succeeds(workflowService.countWorkflowExecutions({ namespace })));
    return { TEMPORAL_NAMESPACE: namespace };
  };
  const pausedSweep = async () => {
    const schedule = h.temporal.schedule.getHandle(`sweep/${h.taskQueue}`);
    await schedule.pause('by a test');
    afterTest(() => schedule.unpause());
    return {};
  };
  const othersSweep = async () => {
    const schedule = h.temporal.schedule.getHandle(`sweep/${h.taskQueue}`);
    const give = (...args: unknown[]) =>
      schedule.update((now) => ({ ...now, action: { ...now.action, args } }) as ScheduleUpdateOptions);
    await give({ store: 'another' });
    afterTest(() => give());
    return {};
  };
  const failing: Record<string, [env: () => Promise<NodeJS.ProcessEnv>, failed: Record<string, RegExp>]> = {
    'a wrong setting': [async () => ({ PORT: 'eighty' }), { settings: /^fail .*PORT/ }],
    'a namespace that does not exist': [
      async () => ({ TEMPORAL_NAMESPACE: 'nowhere' }),
      { 'temporal namespace': /^fail .*namespace create --namespace nowhere/ },
    ],
    'no worker and no sweep': [
      async () => ({ TASK_QUEUE: `${h.taskQueue}-of-nobody` }),
      { 'temporal sweep': /^fail/, 'temporal workers': /^fail/ },
    ],
    'search attributes that the namespace lacks': [
      lacksAttributes,
      {
        'temporal search attributes':
          /^fail No workflow can be started: .*ClientToken \(KeywordList\).*\. .*search-attribute create .*--name HttpStatus --type Int/,
        'temporal sweep': /^fail/,
        'temporal workers': /^fail/,
      },
    ],
    'a sweep of another store': [
      othersSweep,
      { 'temporal sweep': /^fail .*TASK_QUEUE .*delete --schedule-id/ },
    ],
    'a paused sweep': [pausedSweep, { 'temporal sweep': /^fail .*toggle --unpause/ }],
  };
  for (const [what, [env, failed]] of Object.entries(failing)) {
    it(`ends with exit status 1 and says what to do at ${what}`, async () => {
      const { ran, finding } = await examine(await env());
      const count = Object.keys(failed).length;
      assert.deepEqual([ran.status, ran.stderr], [1, `${count} check${count > 1 ? 's' : ''} failed.\n`]);
      for (const [check, says] of Object.entries(failed)) {
        const { level, found, do: todo } = finding(check) ?? {};
        assert.match(`${level} ${found} ${todo}`, says);
      }
    });
  }

  const asked = ['GetSystemInfo', 'DescribeNamespace', 'ListSearchAttributes', 'DescribeSchedule'];
  for (const [code, methods, says, todo] of [
    [status.permissionDenied, ['DescribeNamespace'], /PERMISSION_DENIED/, /TEMPORAL_API_KEY/],
    [status.resourceExhausted, asked, /RESOURCE_EXHAUSTED/, /^Raise it/],
  ] as const) {
    it(`says why Temporal refuses a call, whichever (${code}), and what to do`, async () => {
      const proxy = opened(await startGrpcProxy(servers().temporalAddress));
      const refused = async (call: string) => {
        proxy.answer = (path) => (path.endsWith(`/${call}`) ? code : status.ok);
        return await examine({ TEMPORAL_ADDRESS: proxy.address });
      };
      for (const method of methods) {
        const { ran, finding } = await refused(method);
        assert.equal(ran.status, 1, method);
        assert.match(finding('temporal')?.found ?? '', says, method);
        assert.match(finding('temporal')?.do ?? '', todo, method);
      }
      // Only commands ask this.
      const { ran, finding } = await refused('DescribeTaskQueue');
      const { level, found = '' } = finding('temporal workers') ?? {};
      assert.deepEqual([ran.status, level], [0, 'warn']);
      assert.match(found, says);
      const { stdout } = await cli.run(['status'], { env: { TEMPORAL_ADDRESS: proxy.address } });
      assert.match(stdout, /^temporal +does not say who asks for work$/m);
    });
  }

  describe('Redis with wrong settings', () => {
    let redis: RedisServer;
    before(async () => {
      const eviction = ['--maxmemory-policy', 'allkeys-lru', '--maxmemory', '100mb'];
      redis = await startOwnRedis(['--appendonly', 'no', ...eviction]);
    });
    after(() => redis.stop());

    it('fails without a log, with eviction and without a required replica, warns of a late flush and of endless growth, and is ok when trusted', async () => {
      const env = { REDIS_URL: redis.url };
      const without = await examine({ ...env, REDIS_ACK_REPLICAS: '1' });
      assert.equal(without.ran.status, 1);
      for (const check of ['redis persistence', 'redis memory policy'])
        assert.equal(without.finding(check)?.level, 'fail');
      assert.match(without.finding('redis memory')?.found ?? '', /of 105 MB/);
      assert.match(without.finding('redis replicas')?.do ?? '', /REDIS_ACK_REPLICAS=1/);
      const trusted = await examine({ ...env, REDIS_DURABILITY: 'trusted' });
      assert.equal(trusted.finding('redis persistence')?.level, 'ok');
      const set = new Redis(redis.url);
      await set.config('SET', 'appendonly', 'yes');
      for (const [name, value] of [
        ['appendfsync', 'everysec'],
        ['auto-aof-rewrite-percentage', '0'],
      ] as const) {
        await set.config('SET', name, value);
        const { level, do: todo } = (await examine(env)).finding('redis persistence') ?? {};
        assert.match(`${level} ${todo}`, new RegExp(`^warn .*CONFIG SET ${name}`));
      }
      set.disconnect();
    });
  });

  describe('a Redis Cluster', () => {
    const cluster = openForSuite(() => startOwnCluster(10_000));

    it('is checked primary by primary, and status names one that is full', async () => {
      const ports = cluster.nodes.map(({ server }) => server.port);
      const env = { REDIS_URL: `redis+cluster://${ports.map((port) => `127.0.0.1:${port}`).join()}` };
      const { finding } = await examine(env);
      assert.match(finding('redis')?.found ?? '', /^It answers in/);
      for (const port of ports) assert.equal(finding(`redis persistence 127.0.0.1:${port}`)?.level, 'ok');
      await cluster.nodes[0]?.redis.config('SET', 'maxmemory', '1');
      const { stdout } = await cli.run(['status'], { env });
      assert.match(stdout, new RegExp(`redis 127.0.0.1:${ports[0]}: Redis is full`));
    });
  });

  /** Of settings alone: it asks no server. */
  async function levelOf(check: string, env: NodeJS.ProcessEnv) {
    const away = () => Promise.reject(new Error('away'));
    const operator = { config: () => readConfig(env), db: away, temporal: away } as unknown as Operator;
    const { findings } = (await doctor.run(operator, {}, { limit: 1 })).value as Examined;
    return findings.find((one) => one.check === check)?.level;
  }

  async function examine(env: NodeJS.ProcessEnv = {}) {
    const ran: Ran = await cli.run(['doctor', '--json'], { env });
    const examined = JSON.parse(ran.stdout) as Examined;
    return { ran, examined, finding: (check: string) => examined.findings.find((f) => f.check === check) };
  }
});
