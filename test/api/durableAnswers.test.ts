import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RedisServer, startRedis } from '../../local/redis.js';
import type { ClusterNode, RedisCluster } from '../../local/redisCluster.js';
import type { Logger } from '../../src/log.js';
import { slotOf } from '../../src/redis/connection/slots.js';
import { isRedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { type ClaimedEvent, claimAgain } from '../../src/redis/owed/claim.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { register } from '../../src/redis/records/registrations.js';
import { openCli } from '../operator/cli.js';
import { until } from '../receiver.js';
import { startOwnCluster } from '../redisCluster.js';
import { servers } from '../servers.js';
import { newToken, type RunningApi, startApi } from '../service.js';

async function registeredClient(
  { deps: { db, secretBox } }: RunningApi,
  clientToken?: string,
): Promise<string> {
  const { account_id: accountId } = await createAccount(db, { name: 'A media company' });
  const client = await createClient(db, { accountId, name: 'A site', ...(clientToken && { clientToken }) });
  const url = 'https://receiver.example/';
  await register(db, secretBox, { clientToken: client.clientToken, accountId, url });
  return client.clientToken;
}

async function publish(api: RunningApi, token: string, event: Record<string, unknown>) {
  const answer = await fetch(`${api.url}/enrichments`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ platform_id: 'vid', segments: ['a'], ...event }),
  });
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

describe('With REDIS_ACK_REPLICAS=1 and no replica left', () => {
  let dir: string;
  let primary: RedisServer;
  let api: RunningApi;
  let token: string;
  let client: string;
  const said: string[] = [];

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-replica-'));
    const binary = servers().redisServerBinary;
    const args = ['--repl-diskless-sync-delay', '0'];
    primary = await startRedis({ dir: join(dir, 'primary'), binary, args });
    const replicaOf = ['--replicaof', '127.0.0.1', String(primary.port)];
    const replica = await startRedis({ dir: join(dir, 'replica'), binary, args: [...args, ...replicaOf] });
    const log = {
      ...{ info() {}, warn() {}, error() {}, child: () => log },
      debug: (about: unknown) => said.push(JSON.stringify(about)),
    } as unknown as Logger;
    api = await startApi({
      redisUrl: primary.url,
      env: { REDIS_ACK_REPLICAS: '1' },
      log,
    });
    const { db } = api.deps;
    await until('the replica is in sync', async () =>
      /slave0:.*state=online/.test(await db.redis.info('replication')),
    );
    token = await newToken(api, await createAccount(db, { name: 'The platform', scopes: ['enrichments'] }));
    client = await registeredClient(api);
    await replica.stop();
  });
  after(async () => {
    await api.close();
    await primary.stop();
    await rm(dir, { recursive: true, force: true });
  });

  it('no event is answered 202, also if an earlier one brought the same segments, has ended or is sent again', async () => {
    const event = { client_token: client, event_id: 'first' };
    for (const [what, sent] of [
      ['the first', event],
      ['the same segments again', { ...event, event_id: 'second' }],
      ['the same event again', event],
      ['a silent one', { ...event, event_id: 'third', segments: ['b'], notify: false }],
    ] as const) {
      const { status, body } = await publish(api, token, sent);
      assert.equal(status, 503, `${what}: ${JSON.stringify(body)}`);
    }
  });

  it('the log gives the reason for a 503, at debug', async () => {
    said.length = 0;
    assert.equal((await publish(api, token, { client_token: client })).status, 503);
    assert.match(said.join(), /redis did not confirm in time that a write is on disk/);
  });

  it('a workflow that claims a lost event again is not told that it is claimed', async () => {
    const event: ClaimedEvent = {
      ...{
        clientToken: client,
        platformId: 'lost',
        eventId: 'lost',
        segments: ['a'],
        acceptedAt: Date.now(),
      },
      ...{ notificationId: '1'.repeat(22), claim: 1 },
      priority: 'live',
    };
    await assert.rejects(claimAgain(api.deps.db, event), isRedisUnavailable);
  });

  it('no token is minted, and no change of an operator is reported as done', async () => {
    const account = await createAccount(api.deps.db, { name: 'Another' });
    await assert.rejects(newToken(api, account).then((minted) => minted ?? Promise.reject(new Error('503'))));
    const cli = await openCli();
    const env = { REDIS_URL: primary.url, KEY_PREFIX: api.prefix, REDIS_ACK_REPLICAS: '1' };
    const ran = await cli.run(['registration', 'pause', client], { env });
    cli.close();
    assert.notEqual(ran.status, 0);
    assert.match(ran.stderr, /may or may not have taken effect/);
  });
});

describe('In a cluster, while the node of the account is unavailable', function () {
  this.timeout(60_000);
  let cluster: RedisCluster;
  let api: RunningApi;

  before(async () => {
    cluster = await startOwnCluster();
    api = await startApi({ redisUrl: cluster.url });
  });
  after(async () => {
    await api.close();
    await cluster.stop();
  });

  it('a token that was used a moment before goes on for clients of the other nodes, and only such a token', async () => {
    const { db } = api.deps;
    const platform = await createAccount(db, { name: 'The platform', scopes: ['enrichments'] });
    const [used, unused] = [await newToken(api, platform), await newToken(api, platform)];
    const away = await cluster.ownerOf(slotOf(db.global.account(platform.account_id)));
    const client = await clientBeside(away);
    const event = (n: number) => ({
      client_token: client,
      event_id: `event-${n}`,
      segments: [`segment-${n}`],
    });
    assert.equal((await publish(api, used, event(1))).status, 202);
    process.kill(away.server.pid, 'SIGKILL');
    await away.server.child.exited;
    await until(
      'a token that was not used is refused',
      async () => (await publish(api, unused, event(2))).status === 503,
    );
    for (let n = 3; n < 8; n++) {
      const { status, body } = await publish(api, used, event(n));
      assert.equal(status, 202, JSON.stringify(body));
    }
  });

  /** A client on another node; the account of its owner may be anywhere. */
  async function clientBeside(away: ClusterNode): Promise<string> {
    for (let n = 0; ; n++) {
      const { base } = api.deps.db.client(`SITE-${n}`);
      if ((await cluster.ownerOf(slotOf(base))).id !== away.id)
        return await registeredClient(api, `SITE-${n}`);
    }
  }
});
