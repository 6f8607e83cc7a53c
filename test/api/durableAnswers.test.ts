import assert from 'node:assert/strict';
import type { RedisServer } from '../../local/redis.js';
import { slotOf } from '../../src/redis/connection/keys.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { Visitor } from '../console/visitor.js';
import { openCli } from '../operator/cli.js';
import { startOwnCluster, startOwnRedis } from '../ownRedis.js';
import { begun, until } from '../receiver.js';
import { forSuite, useOpened } from '../servers.js';
import { type Customer, type Harness, keptLog, newCustomer, newToken, startHarness } from '../service.js';

const url = 'https://receiver.example/';
const publish = (by: Customer, event: object) =>
  by.call('POST', '/enrichments', { platform_id: 'vid', segments: ['a'], ...event });

describe('With REDIS_ACK_REPLICAS=1 and no replica left', () => {
  let primary: RedisServer;
  let api: Harness;
  let platform: Customer;
  let client: string;
  let visitor: Visitor;
  let operators: Promise<unknown>;
  const { log, lines } = keptLog();

  const ofSuite = useOpened();
  before(async () => {
    const args = ['--repl-diskless-sync-delay', '0'];
    primary = ofSuite(await startOwnRedis(args));
    const replica = await startOwnRedis([...args, '--replicaof', '127.0.0.1', String(primary.port)]);
    api = ofSuite(await startHarness({ REDIS_URL: primary.url, REDIS_ACK_REPLICAS: '1' }, 'api', { log }));
    const { db } = api;
    await until('the replica is in sync', async () =>
      /slave0:.*state=online/.test(await db.redis.info('replication')),
    );
    platform = await newCustomer(api, ['enrichments']);
    client = await api.newClient(url);
    visitor = new Visitor(api.url);
    await visitor.open(String((await platform.call('POST', '/console_sessions')).body.url));
    const another = await api.newClient(url);
    await replica.stop();
    operators = begun(Promise.all([mint(), pause(another)]));
  });

  async function mint(): Promise<void> {
    const account = await createAccount(api.db, { name: 'Another' });
    const minted = newToken(api, account).then((token) => token ?? Promise.reject(new Error('503')));
    await assert.rejects(minted);
  }

  async function pause(another: string): Promise<void> {
    const cli = await openCli();
    const env = { REDIS_URL: primary.url, KEY_PREFIX: api.prefix, REDIS_ACK_REPLICAS: '1' };
    const ran = await cli.run(['registration', 'pause', another], { env });
    assert.notEqual(ran.status, 0);
    assert.match(ran.stderr, /may or may not have taken effect/);
  }

  it('no event is answered 202, also if an earlier one brought the same segments or is sent again, or its client has no URL; and no page of updates', async () => {
    const event = { client_token: client, event_id: 'first' };
    const isRefused = async (what: string, answer: Promise<{ status: number; text: string }>) => {
      const { status, text } = await answer;
      assert.equal(status, 503, `${what}: ${text}`);
    };
    await isRefused('the first', publish(platform, event));
    const later = {
      'the same segments again': { ...event, event_id: 'second' },
      'the same event again': event,
      'a silent one': { ...event, event_id: 'third', segments: ['b'], notify: false },
      'one of a client without a URL': { ...event, client_token: platform.client_token },
    };
    await Promise.all([
      ...Object.entries(later).map(([what, sent]) => isRefused(what, publish(platform, sent))),
      isRefused('updates', platform.call('GET', '/updates')),
    ]);
    assert.match(JSON.stringify(lines), /redis did not confirm in time that a write is on disk/);
  });

  it('no token is minted, and no change of an operator is reported as done', () => operators);

  it('no token is said to be revoked, nor by a repeat, which finds none', async () => {
    const { token, client_id, client_secret } = platform;
    for (let i = 0; i < 2; i++) {
      const body = new URLSearchParams({ token, client_id, client_secret });
      assert.equal((await fetch(`${api.url}/oauth/revoke`, { method: 'POST', body })).status, 503);
    }
  });

  it('no session is said to have ended, and nothing is carried out of which the audit may have no entry', async () => {
    assert.equal((await visitor.post('/console/sign_out', {})).status, 503);
    assert.equal((await platform.call('GET', '/push_notifications/signing_secret')).status, 503);
  });
});

describe('In a cluster, while the node of the account is unavailable', function () {
  this.timeout(60_000);
  const ofSuite = useOpened();
  const cluster = forSuite(async () => ofSuite(await startOwnCluster()));
  const api = forSuite(async () => ofSuite(await startHarness({ REDIS_URL: cluster.url }, 'api')));

  it('a token that was used a moment before goes on for clients of the other nodes, and only such a token', async () => {
    const { db } = api;
    const platform = await newCustomer(api, ['enrichments']);
    const [used, unused] = [platform.token, await newToken(api, platform)];
    const away = await cluster.ownerOf(slotOf(db.global.account(platform.account_id)));
    // The client is on another node; the account of its owner may be anywhere.
    let site = 0;
    while ((await cluster.ownerOf(slotOf(db.client(`SITE-${site}`).base))).id === away.id) site++;
    const client = await api.newClient(url, `SITE-${site}`);
    const statusOf = async (token: string, n: number) => {
      platform.token = token;
      const event = { client_token: client, event_id: `event-${n}`, segments: [`segment-${n}`] };
      return (await publish(platform, event)).status;
    };
    assert.equal(await statusOf(used, 1), 202);
    process.kill(away.server.pid, 'SIGKILL');
    await away.server.child.exited;
    await until('a token that was not used is refused', async () => (await statusOf(unused, 2)) === 503);
    for (let n = 3; n < 8; n++) assert.equal(await statusOf(used, n), 202);
  });
});
