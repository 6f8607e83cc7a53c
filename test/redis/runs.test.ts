import assert from 'node:assert/strict';
import { getNotification, recoverFailed } from '../../src/redis/notifications/notifications.js';
import type { ArrivedEvent } from '../../src/redis/owed/claim.js';
import { owedOverview } from '../../src/redis/owed/owedClients.js';
import { planCatchUp } from '../../src/redis/owed/plan.js';
import { pauseEndpoint, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { announceRuns, maxRuns } from '../../src/redis/runs/announce.js';
import { applyToClient, changeRun, forgetAtClient, type RunChange } from '../../src/redis/runs/change.js';
import { holdRun } from '../../src/redis/runs/hold.js';
import { getRun, type RunCounts, sumRun } from '../../src/redis/runs/runs.js';
import { keysMatching } from '../keysMatching.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  day,
  leaseMs,
  newDeliveryClient,
  type Owed,
  second,
  whatIsOwed,
} from './deliveryClient.js';

const keptMinutes = 14 * 24 * 60;

describe('Analysis runs at a client', () => {
  let client: DeliveryClient;
  beforeEach(async () => {
    client = await newDeliveryClient();
  });
  after(closeDeliveryClients);

  /** Claims an event of a run, as the API does. */
  async function owe(platformId: string, runId?: string, given: Partial<ArrivedEvent> = {}): Promise<Owed> {
    if (runId !== undefined) await announceRuns(client.db, client.clientToken, [{ runId }]);
    return await client.owe(platformId, { ...given, ...(runId !== undefined && { runId }) });
  }
  async function claim(event: ArrivedEvent) {
    await announceRuns(client.db, client.clientToken, [event]);
    return await client.claim(event);
  }
  /** What an operator's command and the run's workflow do, for this client. */
  async function change(runId: string, to: RunChange) {
    const changed = await changeRun(client.db, runId, to);
    assert.equal(changed.outcome, 'changed');
    await mark(runId);
    return await applyToClient(client.db, client.clientToken, runId, () => undefined);
  }
  async function mark(runId: string) {
    const run = await getRun(client.db, runId);
    assert.ok(run);
    await holdRun(client.db, client.clientToken, run);
    return run;
  }
  const read = ({ notificationId }: Owed) => getNotification(client.db, client.clientToken, notificationId);
  const stateOf = async (owed: Owed) => (await read(owed))?.state;
  const counts = async (runId: string) => (await sumRun(client.db, runId)).counts;
  const plan = () => planCatchUp(client.db, client.clientToken, { limit: 100, retentionMs: 30 * day });
  const named = async () => (await plan()).items.map(({ notificationId }) => notificationId);
  const base: RunCounts = {
    ...{ accepted: 0, none: 0, owed: 0, delivered: 0, superseded: 0 },
    ...{ not_needed: 0, failed: 0, cancelled: 0 },
  };

  it('writes nothing about runs for an event without one', async () => {
    await client.attempt(await owe('a'), { ok: true });
    const keys = await keysMatching(client.db, `${client.db.prefix}*run*`);
    assert.deepEqual(keys, []);
  });

  it('counts each accepted event in exactly one number, even if it is sent several times', async () => {
    const [told, failed, older] = [await owe('told', 'R'), await owe('failed', 'R'), await owe('newer', 'R')];
    await owe('newer', 'R');
    await claim(client.event({ platformId: 'told', segments: [], runId: 'R' }));
    const again = client.event({ platformId: 'again', runId: 'R' });
    for (let i = 0; i < 3; i++) await claim(again);
    await client.attempt(told, { ok: true });
    await client.attempt(failed, { ok: false });
    client.pass(31 * day);
    // A notification that is owed for 30 days fails.
    await plan();
    assert.equal(await stateOf(older), 'superseded');
    assert.deepEqual(await counts('R'), {
      ...base,
      ...{ accepted: 6, none: 1, delivered: 1, superseded: 1, failed: 3 },
    });
  });

  it('does not count what an operator does with a notification later', async () => {
    const one = await owe('a', 'R');
    client.pass(31 * day);
    await plan();
    const range = { since: 0, until: client.now(), dryRun: false };
    assert.deepEqual(await recoverFailed(client.db, client.clientToken, range), { count: 1 });
    await change('R', 'cancelled');
    assert.equal(await stateOf(one), 'waiting');
    await client.attempt(one, { ok: true });
    assert.deepEqual(await counts('R'), { ...base, accepted: 1, failed: 1 });
  });

  it('holds its notifications when paused, while others of the client go on, and makes them due when resumed', async () => {
    const [own, other] = [await owe('own', 'R'), await owe('other')];
    await change('R', 'paused');
    assert.deepEqual(await named(), [other.notificationId]);
    assert.equal((await read(own))?.waitingReason, 'run_paused');
    assert.equal((await client.take(own, 'drain')).kind, 'refused');
    await client.attempt(other, { ok: true });
    const { reason, inMs, owed } = await plan();
    assert.deepEqual([reason, owed], ['run_paused', 1]);
    assert.ok(inMs > 29 * day && inMs < 31 * day, 'it looks again when what waits is too old');
    const { isConsistent, overdueMs } = await owedOverview(client.db, client.clientToken, 30 * day);
    assert.ok(isConsistent && overdueMs < 0);
    assert.equal((await change('R', 'active')).due, 1);
    assert.deepEqual(await named(), [own.notificationId]);
    assert.equal((await client.attempt(own, { ok: true }, 'drain')).outcome, 'delivered');
  });

  it('leaves a retry that comes between its end of a pause and the walk over its notifications to that walk', async () => {
    const own = await owe('own', 'R');
    await client.attempt(own, { ok: false });
    await change('R', 'paused');
    await changeRun(client.db, 'R', 'active');
    await mark('R');
    for (const mode of ['retry', 'drain'] as const) {
      const take = await client.take(own, mode);
      assert.ok(take.kind === 'refused');
      assert.deepEqual([take.reason, take.inMs], ['run_paused', -1]);
    }
    const { due } = await applyToClient(client.db, client.clientToken, 'R', () => undefined);
    assert.equal(due, 1);
    assert.deepEqual(await named(), [own.notificationId]);
  });

  it('holds an event that arrives after the pause, in the API and in a worker', async () => {
    await owe('a', 'R');
    await change('R', 'paused');
    const event = client.event({ platformId: 'b', runId: 'R' });
    await announceRuns(client.db, client.clientToken, [event]);
    const { claims } = await client.claimAndTake([event]);
    const [answer] = claims;
    assert.ok(answer?.kind === 'claimed' && answer.take?.kind === 'refused');
    assert.equal(answer.take.reason, 'run_paused');
    // As if the API and the worker are separate processes.
    const late = await owe('c', 'R');
    assert.equal((await client.take(late)).kind, 'refused');
    assert.deepEqual(await named(), []);
    assert.equal((await counts('R')).owed, 3);
  });

  it('is also held at a client that it names for the first time after the pause', async () => {
    const other = await newDeliveryClient();
    await announceRuns(client.db, client.clientToken, [{ runId: 'R' }]);
    await changeRun(client.db, 'R', 'paused');
    const inSameStore = { ...client.db, clockOffsetMs: other.db.clockOffsetMs };
    await client.db.redis.hset(client.db.client('NEW').client, 'account_id', 'acc_x', 'name', 'x');
    await announceRuns(inSameStore, 'NEW', [{ runId: 'R' }]);
    assert.equal(await client.db.redis.hget(client.db.client('NEW').run('R'), 'hold'), 'paused');
  });

  it('is skipped by a probe of a failing endpoint when paused', async () => {
    const [own, other] = [await owe('own', 'R'), await owe('other')];
    await change('R', 'paused');
    await client.db.redis.hset(
      client.db.client(client.clientToken).endpoint,
      'state',
      'failing',
      'probe_at',
      0,
    );
    assert.deepEqual(await named(), [other.notificationId]);
    await client.attempt(other, { ok: true }, 'probe');
    assert.deepEqual(await named(), []);
    assert.equal(await stateOf(own), 'waiting');
  });

  it('lets an attempt under way go on: after 2xx it is delivered, otherwise parked or cancelled', async () => {
    const [good, bad] = [await owe('good', 'R'), await owe('bad', 'R')];
    const [a, b] = [await client.take(good), await client.take(bad)];
    assert.ok(a.kind === 'taken' && b.kind === 'taken');
    assert.deepEqual(await change('R', 'cancelled'), { cancelled: 0, due: 0, inFlight: 2 });
    assert.equal((await client.settle(good, a, { ok: true })).outcome, 'delivered');
    assert.equal((await client.settle(bad, b, { ok: false })).outcome, 'retry');
    const again = await applyToClient(client.db, client.clientToken, 'R', () => undefined);
    assert.deepEqual(again, { cancelled: 1, due: 0, inFlight: 0 });
    assert.deepEqual(await counts('R'), { ...base, accepted: 2, delivered: 1, cancelled: 1 });
  });

  it('treats an expired lease as no attempt under way', async () => {
    const one = await owe('a', 'R');
    await client.take(one);
    client.pass(leaseMs + second);
    assert.deepEqual(await change('R', 'cancelled'), { cancelled: 1, due: 0, inFlight: 0 });
    assert.deepEqual(await whatIsOwed(client), { waiting: {}, flight: {} });
  });

  it('starts the retry window again when resumed', async () => {
    const one = await owe('a', 'R');
    await client.attempt(one, { ok: false });
    await change('R', 'paused');
    client.pass(6 * day);
    await client.attempt(await owe('b'), { ok: true });
    await change('R', 'active');
    assert.equal((await client.attempt(one, { ok: false }, 'drain')).outcome, 'retry');
  });

  it('when cancelled, ends its owed notifications, refuses its further events, and ends one whose claim was lost', async () => {
    const one = await owe('a', 'R');
    const lost = client.event({ platformId: 'lost', runId: 'R' });
    assert.deepEqual(await change('R', 'cancelled'), { cancelled: 1, due: 0, inFlight: 0 });
    const found = await read(one);
    assert.deepEqual([found?.state, found?.reason, found?.runId], ['cancelled', 'run_cancelled', 'R']);
    assert.deepEqual(await claim(client.event({ platformId: 'b', runId: 'R' })), { kind: 'run_cancelled' });
    assert.deepEqual(await client.claimAgain(lost, 0), { kind: 'ended', state: 'cancelled' });
    assert.deepEqual(await whatIsOwed(client), { waiting: {}, flight: {} });
    assert.deepEqual(await counts('R'), { ...base, accepted: 2, cancelled: 2 });
    assert.deepEqual(await changeRun(client.db, 'R', 'active'), { outcome: 'refused', before: 'cancelled' });
  });

  it('when cancelled, makes a superseded notification owed again, with its "owed since"', async () => {
    await pauseEndpoint(client.db, client.clientToken);
    const good = await owe('a');
    const since = (await whatIsOwed(client)).waiting;
    assert.deepEqual(since, { a: good.notificationId });
    const at = await client.db.redis.zscore(client.db.client(client.clientToken).owedSince, 'a');
    client.pass(second);
    const bad = [await owe('a', 'R'), await owe('a', 'R')];
    assert.equal(await stateOf(good), 'superseded');
    assert.deepEqual(await change('R', 'cancelled'), { cancelled: 1, due: 1, inFlight: 0 });
    const found = await read(good);
    assert.deepEqual([found?.state, found?.by, found?.endedAt], ['waiting', undefined, undefined]);
    assert.equal(await client.db.redis.zscore(client.db.client(client.clientToken).owedSince, 'a'), at);
    assert.deepEqual(await Promise.all(bad.map(stateOf)), ['superseded', 'cancelled']);
    await unpauseEndpoint(client.db, client.clientToken);
    assert.equal((await client.attempt(good, { ok: true }, 'drain')).outcome, 'delivered');
  });

  it('when cancelled, makes it owed again even if its record is gone, and counts it for its run', async () => {
    const event = client.event({ platformId: 'a', runId: 'GOOD' });
    await claim(event);
    await owe('a', 'R');
    // As `trim_list` does with 10,000 newer ones.
    await client.db.redis.del(client.db.client(client.clientToken).notification(event.notificationId));
    assert.equal((await change('R', 'cancelled')).due, 1);
    const found = await getNotification(client.db, client.clientToken, event.notificationId);
    assert.deepEqual(
      [found?.state, found?.eventId, found?.acceptedAt, found?.runId],
      ['waiting', event.eventId, event.acceptedAt, 'GOOD'],
    );
    assert.deepEqual(await counts('GOOD'), { ...base, accepted: 1, owed: 1 });
    await client.attempt({ platformId: 'a', notificationId: event.notificationId }, { ok: true });
    assert.deepEqual(await counts('GOOD'), { ...base, accepted: 1, delivered: 1 });
  });

  it('when cancelled, skips notifications of other cancelled runs', async () => {
    const [good] = [await owe('a', 'GOOD'), await owe('a', 'S'), await owe('a', 'R')];
    assert.deepEqual(await change('S', 'cancelled'), { cancelled: 0, due: 0, inFlight: 0 });
    await change('R', 'cancelled');
    assert.deepEqual((await whatIsOwed(client)).waiting, { a: good.notificationId });
    await change('GOOD', 'cancelled');
    assert.deepEqual(await whatIsOwed(client), { waiting: {}, flight: {} });
    assert.deepEqual(await counts('S'), { ...base, accepted: 1, superseded: 1 });
  });

  it('when cancelled while an older notification is under way, leaves the decision to its attempt', async () => {
    const good = await owe('a');
    const taken = await client.take(good);
    assert.ok(taken.kind === 'taken');
    const bad = await owe('a', 'R');
    assert.deepEqual(await change('R', 'cancelled'), { cancelled: 1, due: 1, inFlight: 0 });
    assert.deepEqual([await stateOf(good), await stateOf(bad)], ['waiting', 'cancelled']);
    assert.equal((await client.settle(good, taken, { ok: true })).outcome, 'delivered');
    assert.deepEqual(await whatIsOwed(client), { waiting: {}, flight: {} });
  });

  it('when cancelled, keeps the newer notification of another run owed', async () => {
    await owe('a', 'R');
    const newer = await owe('a', 'GOOD');
    assert.deepEqual(await change('R', 'cancelled'), { cancelled: 0, due: 0, inFlight: 0 });
    assert.deepEqual((await whatIsOwed(client)).waiting, { a: newer.notificationId });
    assert.deepEqual(await counts('R'), { ...base, accepted: 1, superseded: 1 });
  });

  it('ignores a state that is older than the one that a client follows', async () => {
    await owe('a', 'R');
    await changeRun(client.db, 'R', 'paused');
    const paused = await getRun(client.db, 'R');
    await changeRun(client.db, 'R', 'active');
    await mark('R');
    assert.ok(paused);
    await holdRun(client.db, client.clientToken, paused);
    assert.equal(await client.db.redis.hget(client.db.client(client.clientToken).run('R'), 'hold'), null);
    assert.equal((await client.endpoint()).held_runs, '0');
  });

  describe('forgotten', () => {
    const many = (from: number, count: number) => Array.from({ length: count }, (_, i) => `s${from + i}`);
    const forget = async (runId: string) => {
      await change(runId, 'cancelled');
      return await forgetAtClient(client.db, client.clientToken, runId, () => undefined);
    };
    /** How many of these segments are new to the asset. */
    async function areNew(platformId: string, segments: string[]): Promise<number> {
      let count = 0;
      for (const one of segments) {
        const answer = await claim(client.event({ platformId, segments: [one] }));
        if (answer.kind === 'claimed') count++;
      }
      return count;
    }

    it('forgets the segments that it was the first to bring, and keeps those known before', async () => {
      await owe('a', undefined, { segments: ['before'] });
      await owe('a', 'R', { segments: ['before', 'brought'] });
      await claim(client.event({ platformId: 'a', segments: ['silent'], notify: false, runId: 'R' }));
      await owe('a', undefined, { segments: ['brought', 'after'] });
      assert.equal(await forget('R'), 2);
      assert.equal(await areNew('a', ['before', 'after']), 0);
      assert.equal(await areNew('a', ['brought', 'silent']), 2);
      assert.equal(await forgetAtClient(client.db, client.clientToken, 'R', () => undefined), 0);
      assert.equal((await sumRun(client.db, 'R')).forgotten, 2);
    });

    it('lets the correct analysis notify of the same segments', async () => {
      await client.attempt(await owe('a', 'R', { segments: ['wrong', 'right'] }), { ok: true });
      await forget('R');
      const right = await owe('a', 'S', { segments: ['right'] });
      assert.equal((await client.attempt(right, { ok: true })).outcome, 'delivered');
    });

    it('refills the first 256 of an asset with many segments, so that none of the others is new', async () => {
      await claim(client.event({ platformId: 'a', segments: many(0, 150) }));
      for (let i = 0; i < 2; i++) {
        await claim(client.event({ platformId: 'a', segments: many(1000 + 200 * i, 200), runId: 'R' }));
      }
      await claim(client.event({ platformId: 'a', segments: many(150, 150) }));
      assert.equal(await forget('R'), 400);
      assert.equal(await areNew('a', many(0, 300)), 0);
      assert.equal(await areNew('a', many(1000, 3)), 3);
    });

    it('makes no second notification for a repeat of an event that made one', async () => {
      await claim(client.event({ platformId: 'a', segments: ['x'], runId: 'R' }));
      const event = client.event({ platformId: 'a', segments: ['x', 'y'] });
      assert.equal((await claim(event)).kind, 'claimed');
      await client.attempt(await owe('a', undefined, { segments: ['z'] }), { ok: true });
      await forget('R');
      assert.deepEqual(await claim(event), { kind: 'ended', state: 'superseded' });
    });

    it('is refused unless the run is cancelled', async () => {
      await owe('a', 'R');
      assert.deepEqual(await changeRun(client.db, 'R', 'forgotten'), {
        outcome: 'refused',
        before: 'active',
      });
      assert.deepEqual(await changeRun(client.db, 'none', 'paused'), { outcome: 'unknown' });
    });
  });

  it('expires 14 days after its last owed notification has ended, and not before', async () => {
    const keys = client.db.client(client.clientToken);
    /** The times left, in minutes: Redis counts down meanwhile. */
    const minutesLeft = () =>
      Promise.all(
        [keys.run('R'), keys.runKnown('R')].map(async (key) => {
          const seconds = await client.db.redis.ttl(key);
          return seconds < 0 ? seconds : Math.ceil(seconds / 60);
        }),
      );
    await claim(client.event({ platformId: 'a', segments: ['x'], notify: false, runId: 'R' }));
    assert.deepEqual(await minutesLeft(), [keptMinutes, keptMinutes]);
    const one = await owe('a', 'R');
    assert.deepEqual(await minutesLeft(), [-1, -1]);
    await client.attempt(one, { ok: true });
    assert.deepEqual(await minutesLeft(), [keptMinutes, keptMinutes]);
    assert.equal(await client.db.redis.exists(keys.runOwed('R')), 0);
  });

  it('keeps the 10,000 runs with the newest events, and those that are paused', async () => {
    const { redis, global } = client.db;
    const [held, one] = [await owe('held', 'held'), await owe('one', 'one')];
    await changeRun(client.db, 'held', 'paused');
    await client.attempt(one, { ok: true });
    await redis.zadd(global.runs, 1, 'held', 2, 'one');
    const pairs = Array.from({ length: maxRuns - 1 }, (_, i) => [1000 + i, `R${i}`]).flat();
    await redis.zadd(global.runs, ...pairs);
    await owe('new', 'new');
    assert.equal(await redis.zcard(global.runs), maxRuns + 1);
    await owe('newer', 'newer');
    assert.deepEqual(
      [await getRun(client.db, 'one'), await redis.zscore(global.runs, 'R0')],
      [undefined, null],
    );
    assert.equal((await getRun(client.db, 'held'))?.state, 'paused');
    assert.equal(await stateOf(held), 'waiting');
    const left = await keysMatching(client.db, `${client.db.prefix}*one`);
    assert.deepEqual(left, []);
  });
});
