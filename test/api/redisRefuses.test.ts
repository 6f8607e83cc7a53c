/** Redis is there and refuses: callers are asked to come again, and the service goes on by itself. */
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { type RedisServer, startRedis } from '../../local/redis.js';
import { type Proxy as Line, startProxy } from '../proxy.js';
import { servers } from '../servers.js';
import { newCustomer, newToken, type RunningApi, startApi, tokenFields } from './runningApi.js';

describe('while Redis refuses', () => {
  let dir: string;
  const begun: { stop(): Promise<void> }[] = [];

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-refuses-'));
  });
  afterEach(async () => {
    for (const one of begun.splice(0).reverse()) await one.stop();
  });
  after(() => rm(dir, { recursive: true, force: true }));

  async function start(args: string[] = []): Promise<{ server: RedisServer; dir: string; admin: Redis }> {
    const own = await mkdtemp(join(dir, 'redis-'));
    const server = await startRedis({ dir: own, binary: servers().redisServerBinary, args });
    begun.push(server);
    const admin = new Redis(server.url);
    admin.on('error', () => undefined);
    begun.push({ stop: async () => admin.disconnect() });
    return { server, dir: own, admin };
  }

  async function serve(redisUrl: string): Promise<Calls> {
    const api = await startApi({ redisUrl });
    begun.push({ stop: () => api.close() });
    return await callsOf(api);
  }

  const refusals: Record<string, (redis: { dir: string; admin: Redis }) => Promise<() => Promise<unknown>>> =
    {
      async NOREPLICAS({ admin }) {
        await admin.config('SET', 'min-replicas-to-write', 1);
        return () => admin.config('SET', 'min-replicas-to-write', 0);
      },
      async MISCONF({ admin, dir: own }) {
        // A snapshot cannot take the place of a folder.
        await mkdir(join(own, snapshot));
        await admin.config('SET', 'save', '3600 1');
        await admin.bgsave();
        await saved(admin, 'err');
        return async () => {
          await rmdir(join(own, snapshot));
          await admin.bgsave();
          await saved(admin, 'ok');
        };
      },
      async BUSY({ admin }) {
        await admin.config('SET', 'busy-reply-threshold', 1);
        const endless = admin.duplicate();
        const killed = endless.eval('while true do end', 0).catch(() => endless.disconnect());
        await until(() =>
          admin.ping().then(
            () => false,
            (err: Error) => err.message.startsWith('BUSY'),
          ),
        );
        return async () => {
          await admin.script('KILL');
          await killed;
        };
      },
      async LOADING({ admin }) {
        await admin.eval("for i = 1, 2000 do redis.call('SET', 'key-' .. i, i) end", 0);
        await admin.config('SET', 'loading-process-events-interval-bytes', 1024);
        // Of each key, us.
        await admin.config('SET', 'key-load-delay', 2000);
        const loading = admin.duplicate();
        const loaded = loading.call('DEBUG', 'RELOAD').finally(() => loading.disconnect());
        await until(() =>
          admin.get('key-1').then(
            () => false,
            (err: Error) => err.message.startsWith('LOADING'),
          ),
        );
        return () => loaded;
      },
    };
  for (const [name, begin] of Object.entries(refusals)) {
    it(`${name}: answers 503 with Retry-After, and normally again afterwards`, async () => {
      const redis = await start(['--enable-debug-command', 'local', '--dbfilename', snapshot]);
      const calls = await serve(redis.server.url);
      const end = await begin(redis);
      await calls.areRefused();
      await end();
      await calls.areAnswered();
    });
  }

  describe('READONLY, like a demoted primary that keeps its connections', () => {
    let old: Awaited<ReturnType<typeof start>>;
    let other: Awaited<ReturnType<typeof start>>;
    let line: Line;
    let calls: Calls;

    beforeEach(async () => {
      [old, other] = await Promise.all([start(), start()]);
      line = await startProxy(old.server.url);
      begun.push({ stop: () => line.close() });
      calls = await serve(line.url);
      await other.admin.replicaof('127.0.0.1', old.server.port);
      await linked(other.admin);
      await other.admin.replicaof('NO', 'ONE');
      await old.admin.replicaof('127.0.0.1', other.server.port);
      await linked(old.admin);
    });

    it('answers 503 with Retry-After, and uses the new primary once the address leads there', async () => {
      await calls.areRefused();
      line.lead(other.server.url);
      await calls.areAnswered();
      // The write exists: the new primary has answered.
      assert.ok((await other.admin.keys('*registration')).length > 0);
    });

    it('answers 503 with Retry-After, and normally once it is the primary again', async () => {
      await calls.areRefused();
      await old.admin.replicaof('NO', 'ONE');
      await calls.areAnswered();
    });
  });
});

const snapshot = 'snapshot.rdb';

interface Calls {
  areRefused(): Promise<void>;
  /** Each, within some seconds, without a restart of anything. */
  areAnswered(): Promise<void>;
}

async function callsOf(api: RunningApi): Promise<Calls> {
  const customer = await newCustomer(api, ['enrichments', 'push_notifications']);
  const token = await newToken(api, customer);
  const post = (path: string, init: RequestInit = {}) =>
    fetch(`${api.url}${path}`, { method: 'POST', ...init });
  const calls: Record<string, [make: () => Promise<Response>, success: number]> = {
    'an event': [
      () =>
        post('/enrichments', {
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          body: JSON.stringify({
            client_token: customer.client_token,
            platform_id: 'vid-1',
            segments: ['a'],
          }),
        }),
      202,
    ],
    'a token': [() => post('/oauth/access_token', { body: new URLSearchParams(tokenFields(customer)) }), 200],
    'a registration': [
      () => {
        const query = new URLSearchParams({
          access_token: token,
          client_token: customer.client_token,
          url: 'http://127.0.0.1:9/hook',
        });
        return post(`/register_push_notifications?${query}`);
      },
      200,
    ],
  };
  return {
    async areRefused() {
      for (const [what, [make]] of Object.entries(calls)) {
        const refused = await make();
        const body = (await refused.json()) as { code?: string; error?: string };
        assert.deepEqual([refused.status, body.code ?? body.error], [503, 'temporarily_unavailable'], what);
        assert.match(String(refused.headers.get('retry-after')), /^[1-9]\d*$/, what);
      }
    },
    async areAnswered() {
      for (const [what, [make, success]] of Object.entries(calls)) {
        await until(async () => {
          const { status } = await make();
          assert.ok([success, 503].includes(status), `${what}: ${status}`);
          return status === success;
        });
      }
    },
  };
}

async function linked(replica: Redis): Promise<void> {
  await until(async () => (await replica.info('replication')).includes('master_link_status:up'));
}

async function saved(redis: Redis, status: 'ok' | 'err'): Promise<void> {
  await until(async () => {
    const info = await redis.info('persistence');
    return info.includes('rdb_bgsave_in_progress:0') && info.includes(`rdb_last_bgsave_status:${status}`);
  });
}

async function until(look: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 20_000;
  while (!(await look())) {
    if (Date.now() > end) assert.fail('it did not come about within 20 s');
    await sleep(25);
  }
}
