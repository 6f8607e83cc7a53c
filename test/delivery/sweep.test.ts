import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import type { ActivityDeps } from '../../activities/index.js';
import { Hands } from '../../src/delivery/hands.js';
import { partsOf } from '../../src/redis/connection/keys.js';
import { RedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { recoverFailed } from '../../src/redis/notifications/redeliver.js';
import { beginReplay } from '../../src/redis/notifications/replay.js';
import { claimEvents } from '../../src/redis/owed/claim.js';
import { announceClaims, indexedClients } from '../../src/redis/owed/owedClients.js';
import { recordChange } from '../../src/redis/records/audit.js';
import { readCounts } from '../../src/redis/records/counts.js';
import { deleteClient } from '../../src/redis/records/deletion.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { drainClient } from '../../src/upkeep/drain.js';
import { runSweep } from '../../src/upkeep/sweep.js';
import { isIndexed } from '../faults/walk.js';
import { keysMatching } from '../keysMatching.js';
import { startReceiver, until } from '../receiver.js';
import { dbWith, forSuite, openForSuite } from '../servers.js';
import { arrivedEvent, startHarness, useHarness } from '../service.js';

describe('the sweep', () => {
  const h = openForSuite(() => startHarness({}, 'worker'));
  const receiver = forSuite(() => startReceiver());

  it('knows a client before its claim: without that no event is accepted', async () => {
    const client = await h.newClient(receiver.url);
    const call = () => Promise.reject(new RedisUnavailable('this part is away'));
    const hands = new Hands({ ...h.delivering.hands.deps, sends: false, db: dbWith(h.db, { call }) });
    await assert.rejects(hands.accept(arrivedEvent(client, 'a')), RedisUnavailable);
    assert.equal((await h.endpoint(client)).owed, 0);
  });

  it('reads every page of a long index', async () => {
    const { redis, global, nodes } = h.db;
    const [index = ''] = partsOf(nodes.isCluster, global.owedClients);
    const names = Array.from({ length: 2_000 }, (_, i) => `gone-${i}`);
    await redis.zadd(index, ...names.flatMap((name) => [0, name]));
    const found = new Set<string>();
    for await (const page of indexedClients(h.db, assert.ifError)) for (const name of page) found.add(name);
    await redis.zrem(index, ...names);
    const missed = names.filter((name) => !found.has(name));
    assert.deepEqual(missed, []);
  });

  it('logs the changes of a busy operator in steps, between which the log is written', async () => {
    const change = { who: 'Busy', what: 'client set', before: null, after: null };
    const changed = Array.from({ length: 500 }, (_, i) => `N${i}`);
    await Promise.all(changed.map((target) => recordChange(h.db, { ...change, target })));
    const targets: unknown[] = [];
    const rounds = [0];
    const info = ({ who, target }: { who?: string; target?: string }) => {
      if (who !== 'Busy') return;
      if (rounds.at(-1) === 0) setImmediate(() => rounds.push(0));
      rounds.push((rounds.pop() ?? 0) + 1);
      targets.push(target);
    };
    await runSweep({ ...h.deps, log: Object.assign(Object.create(h.deps.log), { info }) });
    assert.deepEqual(targets, changed);
    assert.ok(Math.max(...rounds) <= 200, `${Math.max(...rounds)} lines at a time`);
  });

  it('knows a client before recover makes something owed again', async () => {
    const client = await h.newClient(receiver.url);
    assert.equal(await isIndexed(h.db, client), false);
    await recoverFailed(h.db, client, { since: 0, until: Date.now(), dryRun: true });
    assert.equal(await isIndexed(h.db, client), false);
    await recoverFailed(h.db, client, { since: 0, until: Date.now(), dryRun: false });
    assert.equal(await isIndexed(h.db, client), true);
  });

  it('knows a client whose claim and announcement were lost together, once its workflow has claimed again', async () => {
    await h.stopWorker();
    const client = await h.newClient(receiver.url);
    const { id } = await h.publish({ client, asset: 'a' });
    assert.equal(await isIndexed(h.db, client), true);
    const { base } = h.db.client(client);
    const lost = await Promise.all(
      ['owed*', 'due:*', 'known:*', 'notification*', 'endpoint'].map((name) =>
        keysMatching(h.db, `${base}${name}`),
      ),
    );
    await h.db.redis.del(lost.flat());
    for (const key of await keysMatching(h.db, `${h.db.prefix}owed-clients*`))
      await h.db.redis.zrem(key, client);
    // With a failover the process loses its connection, and no longer knows what it has announced.
    h.db.nodes.announced.delete(client);
    await h.startWorker();
    await h.delivered(client, id);
    assert.equal(await isIndexed(h.db, client), true);
  });
});

describe('What nothing works on', () => {
  const scene = useHarness();

  /** Owes the client assets that only catch-up will send, while it sleeps. */
  async function owe(isWorkerStopped = false): Promise<void> {
    const { h, client } = scene;
    await setPaused(h.db, client, true);
    const { id } = await h.publish({ client, asset: 'a' });
    await until('catch-up sleeps', async () => (await h.memo(client))?.owed === 1);
    await (await h.workflowOf(client, id)).result();
    if (isWorkerStopped) await h.stopWorker();
    await setPaused(h.db, client, false);
  }
  const sweep = (deps: Partial<ActivityDeps> = {}) => runSweep({ ...scene.h.deps, ...deps });

  it('is found by the next sweep, with a part of Redis away', async () => {
    const { h, receiver, client } = scene;
    const away = await h.newClient(receiver.url);
    await h.publish({ client: away, asset: 'away' });
    await owe();
    h.skip(3000);
    const db = dbWith(h.db, {
      call: (name: string, args: string[]) =>
        args.some((arg) => String(arg).includes(away))
          ? Promise.reject(new RedisUnavailable('this part is away'))
          : h.db.redis.call(name, args),
    });
    const { woken } = await sweep({ db });
    assert.equal(woken, 1);
    await h.noneOwed(client);
  });

  it('is cancelled by the next sweep where its client was deleted, with Redis full and the list of clients away', async () => {
    const { h, client } = scene;
    await owe();
    await deleteClient(h.db, client);
    const refuse = () => Promise.reject(new Error('OOM command not allowed'));
    const zscanStream = () => new Readable().destroy(new RedisUnavailable('this part is away'));
    const away = { hset: refuse, get: refuse, set: refuse, zscanStream };
    const said: [{ reason?: string }, string][] = [];
    const say = (...line: (typeof said)[number]) => void said.push(line);
    const log = Object.assign(Object.create(h.deps.log), { warn: say, error: say });
    await sweep({ db: dbWith(h.db, away), log });
    assert.equal((await h.endpoint(client)).owed, 0);
    assert.match(JSON.stringify(said), /^\[\[{"reason":"\w+"},"a part of redis does not serve[^"]*"\]\]$/);
  });

  it('is found although Redis’ clock was twenty minutes ahead for a while', async () => {
    const { h, client } = scene;
    const jumped = { ...h.db, clockOffsetMs: () => 20 * 60_000 };
    await h.publish({ client, asset: 'a' });
    await h.noneOwed(client);
    await sweep();
    await sweep({ db: jumped });
    // The clock steps back.
    await sweep();
    assert.equal(await isIndexed(h.db, client), true);
  });

  it('is not looked at while nothing can be sent, is counted all the same, and is found after a change', async () => {
    const { h, client } = scene;
    await owe();
    await setPaused(h.db, client, true);
    for (let i = 0; i < 7; i++) {
      await sweep();
      h.skip(110_000);
    }
    const looks = async () => (await sweep()).looked;
    assert.equal(await looks(), 0);
    const { owed, owedClients } = (await readCounts(h.db)).counted ?? {};
    assert.deepEqual({ owed, owedClients }, { owed: 1, owedClients: 1 });
    h.skip(2 * 3_600_000);
    assert.equal(await looks(), 1, 'its catch-up may have been lost');
    // Later it would deliver before the sweep looks, and on a busy machine it may all the same.
    await until('catch-up has looked', async () => (await h.endpoint(client)).catchUpLateMs < 0);
    await setPaused(h.db, client, false);
    assert.ok((await looks()) === 1 || (await h.endpoint(client)).owed === 0);
    // The drain that has looked may have ended before the change: then catch-up is late, and woken.
    h.skip(10_000);
    await sweep();
    await h.noneOwed(client);
  });

  it('became due in the millisecond in which its catch-up had planned to sleep', async () => {
    const { h, client } = scene;
    await owe(true);
    const { endpoint } = h.db.client(client);
    const changedAt = Number(await h.db.redis.hget(endpoint, 'recovered_at'));
    await h.db.redis.hset(endpoint, { planned_at: changedAt, catch_up_until: changedAt + 3_600_000 });
    h.skip(10_000);
    assert.equal((await sweep()).woken, 1);
    await h.startWorker();
    await h.noneOwed(client);
  });

  it('is to be replayed, by a process that ended before its first step', async () => {
    const { h, receiver, client } = scene;
    await h.publish({ client, asset: 'a' });
    await h.noneOwed(client);
    await until('no catch-up runs', async () => (await h.endpoint(client)).catchUpUntil === undefined);
    const before = receiver.received.length;
    await announceClaims(h.db, client);
    const call = (...[name, args]: [string, string[]]) =>
      args[0]?.startsWith('replaySome')
        ? Promise.reject(new Error('the process has ended'))
        : h.db.redis.call(name, args);
    const replaying = beginReplay(dbWith(h.db, { call }), client, { since: Date.now() - 60_000 });
    await assert.rejects(replaying, /has ended/);
    h.skip(10_000);
    assert.equal((await sweep()).woken, 1);
    await until('it is sent again', () => receiver.received.length > before);
  });

  it('is sent where a full Redis refuses more of a replay', async () => {
    const { h, client } = scene;
    await h.publish({ client, asset: 'a' });
    await h.noneOwed(client);
    const call = (...[name, args]: [string, string[]]) =>
      args[0]?.startsWith('replaySome')
        ? Promise.reject(new RedisUnavailable('OOM command not allowed'))
        : h.db.redis.call(name, args);
    const full = { ...h.db, redis: Object.assign(Object.create(h.db.redis), { call }) };
    const since = Date.now() - 60_000;
    await assert.rejects(beginReplay(full, client, { since }), RedisUnavailable);
    const drained = await drainClient({ ...h.deps, db: full }, client);
    assert.deepEqual([drained.owed, drained.replays], [0, true], 'the replay goes on');
    h.skip(20_000);
    await sweep();
    await until('the replay has ended', async () => !(await h.endpoint(client)).replay?.runs);
    await h.noneOwed(client);
  });

  it('was taken by a process that was killed: it is sent again once its lease has ended', async () => {
    const { h, receiver, client } = scene;
    const event = arrivedEvent(client, 'a');
    const killed = { nonce: 'killed', most: 16 };
    const { taken } = await claimEvents(h.db, client, [event], killed);
    assert.equal(taken.length, 1);
    await announceClaims(h.db, client);
    assert.equal((await sweep()).woken, 0, 'while its lease runs');
    h.skip(h.db.settings.leaseMs + 3000);
    assert.equal((await sweep()).woken, 1);
    await h.noneOwed(client);
    assert.equal(receiver.received.at(-1)?.headers['webhook-id'], event.notificationId);
  });

  it('although its catch-up was woken two minutes ago: that one is replaced, once', async () => {
    const { h, client } = scene;
    await owe(true);
    const { runId } = await h.catchUp(client).describe();
    h.skip(150_000);
    const seen = { woken: [] as number[], replaced: [] as number[] };
    for (const ms of [0, 60_000, 90_000, 15_000]) {
      h.skip(ms);
      const { woken, replaced } = await sweep();
      seen.woken.push(woken);
      seen.replaced.push(replaced);
    }
    assert.deepEqual(seen, { woken: [1, 1, 0, 1], replaced: [0, 0, 1, 0] });
    await h.startWorker();
    await h.noneOwed(client);
    assert.notEqual((await h.catchUp(client).describe()).runId, runId);
  });
});
