/** A Redis store as the first release left it, with owed, leased, failing, paused and suspended (docs/upgrading.md). */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { notificationId } from '../../src/ids.js';
import { checkLayout } from '../../src/redis/connection/layout.js';
import { getClient } from '../../src/redis/records/clients.js';
import { getEndpoint, resumeEndpoint, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { walk } from '../faults/walk.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from './harness.js';

type Value = string | { base64: string };
type Kept = { hash: Value[] } | { zset: Value[] } | { set: Value[] } | { list: Value[] } | { string: Value };
interface Store {
  recordedAt: number;
  signingSecret: string;
  keys: Record<string, Kept>;
}

describe('A store that the first release wrote', () => {
  let store: Store;
  let h: Harness;
  let receiver: Receiver;

  before(async () => {
    const file = join(import.meta.dirname, '../fixtures/firstReleaseStore.json');
    store = JSON.parse(await readFile(file, 'utf8')) as Store;
    receiver = await startReceiver();
    h = await startHarness();
    await restore(h, store, new URL(receiver.url).origin);
    // The clock goes on where the first release ended: attempts under way then still have their leases.
    h.skip(store.recordedAt + 1000 - Date.now());
    await checkLayout(h.db);
    await h.startWorker();
  });
  after(async () => {
    await h.close();
    await receiver.close();
  });

  /** By asset, as the first release owed it. */
  function owedThen(client: string): Record<string, string> {
    const { hash = [] } = store.keys[`{${client}}:owed`] as { hash?: Value[] };
    return Object.fromEntries(pairsOf(hash as string[]));
  }
  /** By asset; an id that came twice is named twice. */
  function received(client: string): Record<string, string> {
    const got: Record<string, string> = {};
    for (const { path, body, headers } of receiver.received) {
      if (path !== `/${client}`) continue;
      const { platform_id } = JSON.parse(body) as { platform_id: string };
      got[platform_id] = [got[platform_id], headers['webhook-id']].filter(Boolean).join(' ');
    }
    return got;
  }
  async function allDelivered(client: string): Promise<void> {
    await until(`${client} is owed nothing`, async () => (await getEndpoint(h.db, client)).owed === 0);
    assert.deepEqual(received(client), owedThen(client));
    for (const id of Object.values(owedThen(client))) {
      assert.equal((await h.notification(client, id))?.state, 'delivered');
    }
  }

  it('an attempt that was under way keeps its asset until its lease ends', async () => {
    const endpoint = await getEndpoint(h.db, 'FLYING');
    assert.equal(endpoint.owed, 3);
    await h.deps.catchUps.start('FLYING');
    await until('the others are delivered', async () => (await getEndpoint(h.db, 'FLYING')).owed === 1);
    assert.equal(received('FLYING').sent, undefined);
  });

  it('a notification that waited, had failed, was being sent, or is owed to a failing endpoint is sent once', async () => {
    h.skip(120_000);
    await h.sweep();
    for (const client of ['FLYING', 'RETRIED', 'FAILING']) await allDelivered(client);
    assert.equal((await getEndpoint(h.db, 'FAILING')).state, 'active');
    assert.equal((await getEndpoint(h.db, 'FLYING')).inFlight, 0);
    assert.equal(await h.db.redis.exists(`${h.db.client('FLYING').base}in-flight`), 0, 'of the first layout');
    assert.equal(await h.db.redis.get(h.db.global.layout), '3', 'the first release stops at it');
  });

  it('assets of a client that is paused, suspended or without URL stay owed until that ends', async () => {
    for (const [client, state, owed] of [
      ['PAUSED', 'paused', 3],
      ['SUSPENDED', 'suspended', 2],
      ['RESET', 'paused', 1],
    ] as const) {
      const endpoint = await getEndpoint(h.db, client);
      assert.deepEqual([endpoint.state, endpoint.owed, received(client)], [state, owed, {}]);
    }
    await unpauseEndpoint(h.db, 'PAUSED');
    await resumeEndpoint(h.db, 'SUSPENDED');
    await h.registerUrl('RESET', `${new URL(receiver.url).origin}/RESET`);
    await unpauseEndpoint(h.db, 'RESET');
    for (const client of ['PAUSED', 'SUSPENDED', 'RESET']) {
      await h.wake(client);
      await allDelivered(client);
    }
  });

  it('segments, ids, settings and signing secrets are known as before', async () => {
    const known = { client: 'WELL', asset: 'known' };
    assert.equal((await h.publish({ ...known, segments: ['two'] })).kind, 'no_new_segments');
    const again = await h.publish({ ...known, eventId: 'known-one-two', segments: ['one', 'two'] });
    assert.equal(again.kind, 'ended');
    assert.equal((await h.notification('WELL', again.id))?.state, 'delivered');
    const { id } = await h.publish({ ...known, segments: ['two', 'three'] });
    await until('delivered', async () => (await h.notification('WELL', id))?.state === 'delivered');
    const [got] = receiver.received.filter(({ path }) => path === '/WELL');
    new Webhook(store.signingSecret).verify(got?.body ?? '', got?.headers as Record<string, string>);
    assert.equal(
      String(got?.headers['webhook-signature']).split(' ').length,
      2,
      'the previous one signs too',
    );
    const { maxInFlight, maxPerSecond } = (await getClient(h.db, 'FLYING')) ?? {};
    assert.deepEqual([maxInFlight, maxPerSecond], [2, 50]);
  });

  it('an unclaimed workflow of the first release claims its events and hands them over', async () => {
    const event = { clientToken: 'WELL', platformId: 'unclaimed', eventId: 'an-1', segments: ['x'] };
    const id = notificationId(event);
    const times = { lookedUpClaim: 0, acceptedAt: store.recordedAt };
    await h.temporal.workflow.execute('enrichment', {
      workflowId: `enrichment/WELL/${id}`,
      taskQueue: h.taskQueue,
      args: [{ events: [{ ...event, ...times, notificationId: id, priority: 'live' }] }],
    });
    await until('delivered', async () => (await h.notification('WELL', id))?.state === 'delivered');
    assert.equal(received('WELL').unclaimed, id);
  });

  it('every event is accounted for', async () => {
    const { found, states } = await walk(h);
    assert.deepEqual(found, []);
    assert.equal(states.waiting, undefined);
  });
});

async function restore({ db }: Harness, { keys }: Store, origin: string): Promise<void> {
  const bytes = (value: Value) =>
    typeof value === 'string'
      ? value.replaceAll('http://receiver', origin)
      : Buffer.from(value.base64, 'base64');
  const commands = db.redis.pipeline();
  for (const [name, kept] of Object.entries(keys)) {
    const key = `${db.prefix}${name}`;
    if ('hash' in kept) commands.hset(key, ...kept.hash.map(bytes));
    else if ('set' in kept) commands.sadd(key, ...kept.set.map(bytes));
    else if ('list' in kept) commands.rpush(key, ...kept.list.map(bytes));
    else if ('string' in kept) commands.set(key, bytes(kept.string));
    else for (const [member, score] of pairsOf(kept.zset)) commands.zadd(key, String(score), bytes(member));
  }
  for (const [err] of (await commands.exec()) ?? []) if (err) throw err;
}

function pairsOf<T>(flat: readonly T[]): [T, T][] {
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i] as T, flat[2 * i + 1] as T]);
}
