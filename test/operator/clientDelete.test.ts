import assert from 'node:assert/strict';
import { newClientToken } from '../../src/ids.js';
import { claimAgain } from '../../src/redis/owed/claim.js';
import {
  clearDeletedClient,
  continueDeletion,
  deleteClient,
  deletionsDue,
} from '../../src/redis/records/deletion.js';
import { getEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { keysMatching } from '../keysMatching.js';
import { startOwnRedis } from '../ownRedis.js';
import { startGate, until } from '../receiver.js';
import { newDeliveryClient } from '../redis/deliveryClient.js';
import { forSuite, opened } from '../servers.js';
import { arrivedEvent, useHarness } from '../service.js';
import { openCli } from './cli.js';

const keptSeconds = 14 * 86_400;

describe('operator: client delete T', () => {
  /** What the counter of ends counts, in turn. */
  const ended: (number | string)[] = [];
  const scene = useHarness({}, { metrics: { ended: (state, count = 1) => void ended.push(state, count) } });
  const { h, receiver } = scene;
  const cli = forSuite(() => openCli({ KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue }));

  async function keysOf(client: string): Promise<string[]> {
    const { base } = h.db.client(client);
    return (await keysMatching(h.db, `${base}*`)).map((key) => key.slice(base.length)).sort();
  }

  /** Keys that stay for good; the others expire within 14 days. */
  async function staying(client: string): Promise<string[]> {
    const stays: string[] = [];
    for (const key of await keysOf(client)) {
      const ttl = await h.db.redis.ttl(`${h.db.client(client).base}${key}`);
      assert.ok(ttl <= keptSeconds, `${key} is kept for longer`);
      if (ttl === -1) stays.push(key);
    }
    return stays;
  }

  /** One that has been sent something, knows many segments of an asset, and is owed two more. */
  async function busyClient(): Promise<{ client: string; owed: string[] }> {
    const client = await h.newClient(receiver.url);
    await h.delivered(client, (await h.publish({ client, asset: 'sent' })).id);
    for (let i = 0; i < 3; i++) {
      const segments = Array.from({ length: 200 }, (_, n) => `s${i} ${n}`);
      await h.publish({ client, asset: 'many', segments, notify: false });
    }
    await setPaused(h.db, client, true);
    const owed = await h.publishAll(client, 'owed', 2);
    await until('catch-up looks after it', async () => (await h.memo(client))?.owed === 2);
    return { client, owed };
  }

  const states = (client: string, ids: string[]) =>
    Promise.all(ids.map(async (id) => (await h.notification(client, id))?.state));

  it('ends its owed notifications as cancelled, says and counts how many, and keeps only its token and keys that expire within 14 days', async () => {
    const { client, owed } = await busyClient();
    assert.ok((await keysOf(client)).includes('known-beside'));
    ended.length = 0;
    const { removed_url, cancelled } = await cli.json('client', 'delete', client);
    assert.deepEqual([removed_url, cancelled], [receiver.url, 2]);
    assert.deepEqual(await states(client, owed), ['cancelled', 'cancelled']);
    assert.equal((await h.notification(client, owed[0] ?? ''))?.reason, 'client_deleted');
    assert.equal((await getEndpoint(h.db, client)).owed, 0);
    assert.deepEqual(await staying(client), ['client']);
    await h.sweep();
    assert.deepEqual(ended, ['cancelled', 2]);
    const { client: record } = h.db.client(client);
    assert.deepEqual(Object.keys(await h.db.redis.hgetall(record)).sort(), ['account_id', 'deleted']);
    assert.equal(await h.db.redis.hget(h.db.global.clientIndex, client), '\n');
  });

  it('is finished by the sweep, or by repeating its steps, after a failure', async () => {
    const { client, owed } = await busyClient();
    await deleteClient(h.db, client);
    assert.notDeepEqual(await staying(client), ['client']);
    await h.sweep();
    assert.deepEqual(await staying(client), ['client']);
    assert.deepEqual(await states(client, owed), ['cancelled', 'cancelled']);
    assert.deepEqual(await clearDeletedClient(h.db, client), { cancelled: 0 });
    const [id = ''] = owed;
    await h.db.redis.del(h.db.client(client).notification(id));
    const event = arrivedEvent(client, 'owed-0', { notificationId: id });
    const [claim] = (await claimAgain(h.db, event.clientToken, [{ ...event, claim: 1 }])).claims;
    assert.ok(claim?.kind === 'ended' && claim.state === 'cancelled', 'one whose claim was lost');
    assert.deepEqual(await staying(client), ['client']);
    assert.deepEqual(await states(client, [id]), ['cancelled']);
  });

  it('leaves keys written during it to a later sweep, which then forgets the client', async () => {
    const { client } = await busyClient();
    await cli.json('client', 'delete', client);
    await h.registerUrl(client, receiver.url);
    const isUnderWay = async () => (await h.db.redis.zscore(h.db.global.deletedClients, client)) !== null;
    assert.ok(await isUnderWay());
    h.skip(700_000);
    await h.sweep();
    assert.deepEqual(await staying(client), ['client']);
    assert.equal(await isUnderWay(), false);
  });

  it('begins and ends although Redis is full', async () => {
    const redis = opened(await startOwnRedis());
    const { db, clientToken, owe } = await newDeliveryClient({}, redis.url);
    await owe('a');
    await db.redis.config('SET', 'maxmemory', 1);
    await assert.rejects(db.redis.set('key', ''), /OOM/);
    await deleteClient(db, clientToken);
    const [deletion] = await deletionsDue(db, 1);
    assert.deepEqual(deletion, { clientToken, at: 0 });
    assert.deepEqual(await continueDeletion(db, deletion), { cancelled: 1 });
    assert.deepEqual(await deletionsDue(db, 1), []);
  });

  it('that was cut off is the first that the sweep clears, whatever was deleted before, and sends nothing meanwhile', async () => {
    const redis = opened(await startOwnRedis());
    const { db, clientToken, account, owe, take } = await newDeliveryClient({}, redis.url);
    await owe('a');
    for (let i = 0; i < 60; i++) {
      const [other] = [newClientToken()];
      await db.redis.hset(db.client(other).client, { account_id: 'a', deleted: 1 });
      await continueDeletion(db, { clientToken: other, at: 0 });
    }
    const { deletedClients } = db.global;
    // As `deleteClient` begins.
    await db.redis.zadd(deletedClients, 0, clientToken);
    await db.redis.hset(db.client(clientToken).client, 'deleted', 1);
    assert.deepEqual(await take(), []);
    assert.deepEqual(await deletionsDue(db, 50), [{ clientToken, at: 0 }]);
    await continueDeletion(db, { clientToken, at: 0 });
    assert.equal(await db.redis.sismember(db.global.accountClients(account.account_id), clientToken), 0);
  });

  it('that was cut off before it deleted anything changes nothing', async () => {
    const redis = opened(await startOwnRedis());
    const { db, clientToken } = await newDeliveryClient({}, redis.url);
    await db.redis.zadd(db.global.deletedClients, 0, clientToken);
    for (const at of [0, 1]) await continueDeletion(db, { clientToken, at });
    assert.equal(await db.redis.hexists(db.client(clientToken).client, 'deleted'), 0);
    assert.equal(await db.redis.zcard(db.global.deletedClients), 0);
  });

  it('is not undone by an attempt under way or a running workflow', async () => {
    const client = await h.newClient(receiver.url);
    const gate = startGate();
    receiver.answer = () => gate.closed.then(() => 500);
    const { id } = await h.publish({ client, asset: 'under way' });
    await until('it is under way', () => receiver.idsOf('under way').length === 1);
    assert.equal((await cli.json('client', 'delete', client)).cancelled, 1);
    receiver.answer = () => 200;
    gate.open();
    const workflow = await h.workflowOf(client, id);
    await workflow.result().catch(() => undefined);
    h.skip(700_000);
    await h.sweep();
    assert.deepEqual(await staying(client), ['client']);
    assert.deepEqual(await states(client, [id]), ['cancelled']);
    assert.equal(receiver.idsOf('under way').length, 1);
  });
});
