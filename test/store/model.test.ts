/**
 * What is known and what is owed, as a model in plain words beside the real scripts: after every step of any
 * interleaving both must say the same, and what the model holds must keep the promise.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { setClient } from '../../src/store/clients.js';
import { pauseEndpoint, resumeEndpoint, unpauseEndpoint } from '../../src/store/endpoint.js';
import type { EnrichmentEvent } from '../../src/store/look.js';
import { cancelNotification, makeDue, recoverFailed } from '../../src/store/notifications.js';
import { planCatchUp } from '../../src/store/plan.js';
import { changeRegistration, resetRegistration } from '../../src/store/registrations.js';
import type { TakeMode, Taken } from '../../src/store/take.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  day,
  hour,
  leaseMs,
  minute,
  newDeliveryClient,
  second,
} from './deliveryClient.js';

const assets = ['a', 'b', 'c'];
const maxInFlight = 2;
const retentionMs = 30 * day;

interface Accepted {
  event: EnrichmentEvent;
  lookedUpClaim: number;
}

interface Notification {
  asset: string;
  state: 'waiting' | 'delivered' | 'superseded' | 'not_needed' | 'failed' | 'cancelled';
  claim: number;
  live: boolean;
  by?: string;
}

interface Attempt {
  asset: string;
  id: string;
  mode: TakeMode;
  taken: Taken;
  /** It holds its lease surely until then, if nobody settles it. */
  leaseUntil: number;
  settled: boolean;
}

class Model {
  registered = true;
  paused = false;
  known = new Map<string, { segments: Set<string>; claim: number; last: string }>();
  notifications = new Map<string, Notification>();
  owed = new Map<string, { id: string; live: boolean }>();
  accepted: Accepted[] = [];
  attempts: Attempt[] = [];

  knownOf(asset: string) {
    const known = this.known.get(asset) ?? { segments: new Set<string>(), claim: 0, last: '' };
    this.known.set(asset, known);
    return known;
  }

  end(id: string, state: Notification['state'], by?: string): void {
    const notification = this.notifications.get(id);
    assert.ok(notification, `${id} was never claimed`);
    notification.state = state;
    if (by !== undefined) notification.by = by;
    if (this.owed.get(notification.asset)?.id === id) this.owed.delete(notification.asset);
  }

  live(now: number): Attempt[] {
    return this.attempts.filter((a) => !a.settled && a.leaseUntil > now);
  }
}

type Step = fc.AsyncCommand<Model, DeliveryClient>;

/** A command that is always possible and checks everything after it ran. */
function step(name: string, run: (model: Model, client: DeliveryClient) => Promise<void>): Step {
  return {
    check: () => true,
    async run(model, client) {
      await run(model, client);
      await holds(model, client);
    },
    toString: () => name,
  };
}

function pick<T>(from: readonly T[], n: number): T | undefined {
  return from.length === 0 ? undefined : from[n % from.length];
}

const look = (event: (model: Model, client: DeliveryClient) => EnrichmentEvent | undefined, name: string) =>
  step(`look ${name}`, async (model, client) => {
    const given = event(model, client);
    if (given === undefined) return;
    const known = model.knownOf(given.platformId);
    const news = given.segments.filter((s) => !known.segments.has(s));
    const answer = await client.look(given);
    const mark = (): void => {
      for (const segment of news) known.segments.add(segment);
    };
    if (given.notify && known.last === given.notificationId) {
      assert.equal(answer.kind, 'claimed');
    } else if (!given.notify) {
      assert.deepEqual(answer, { kind: 'none', reason: 'silent' });
      mark();
    } else if (!model.registered) {
      assert.deepEqual(answer, { kind: 'none', reason: 'not_registered' });
      mark();
    } else if (news.length === 0) {
      assert.deepEqual(answer, { kind: 'none', reason: 'no_new_segments' });
    } else {
      assert.ok(answer.kind === 'new' && answer.claim === known.claim, JSON.stringify(answer));
      model.accepted.push({ event: given, lookedUpClaim: answer.claim });
    }
  });

const claim = (n: number) =>
  step(`claim ${n}`, async (model, client) => {
    const accepted = pick(model.accepted.slice(-5), n);
    if (accepted === undefined) return;
    const { event, lookedUpClaim } = accepted;
    const id = event.notificationId;
    const known = model.knownOf(event.platformId);
    const before = model.notifications.get(id);
    const answer = await client.claim(event, lookedUpClaim);
    if (before !== undefined && before.state !== 'waiting') {
      assert.deepEqual(answer, { kind: 'ended', state: before.state });
    } else if (known.last === id) {
      assert.deepEqual(answer, { kind: 'mine', claim: known.claim });
    } else if (before !== undefined) {
      assert.fail('what waits was claimed last');
    } else if (event.segments.every((s) => known.segments.has(s)) && known.claim > lookedUpClaim) {
      assert.deepEqual(answer, { kind: 'not_needed', by: known.last });
      model.notifications.set(id, {
        asset: event.platformId,
        state: 'not_needed',
        claim: 0,
        live: false,
        by: known.last,
      });
    } else {
      known.claim++;
      known.last = id;
      for (const segment of event.segments) known.segments.add(segment);
      assert.deepEqual(answer, { kind: 'claimed', claim: known.claim });
      const older = model.owed.get(event.platformId);
      const live = event.priority === 'live' || older?.live === true;
      model.notifications.set(id, { asset: event.platformId, state: 'waiting', claim: known.claim, live });
      if (older !== undefined) model.end(older.id, 'superseded', id);
      model.owed.set(event.platformId, { id, live });
    }
  });

const take = (n: number, mode: TakeMode) =>
  step(`take ${n} ${mode}`, async (model, client) => {
    // Mostly something owed, now and then something that has ended.
    const owed = [...model.notifications].filter(([, { state }]) => state === 'waiting');
    const [id, notification] = pick(n % 7 === 0 ? [...model.notifications] : owed, n) ?? [];
    if (id === undefined || notification === undefined) return;
    const { asset } = notification;
    const since = client.now();
    const before = await client.endpoint();
    const answer = await client.take(
      { platformId: asset, notificationId: id, claim: notification.claim, maxInFlight },
      mode,
    );
    if (model.owed.get(asset)?.id !== id) {
      assert.deepEqual(answer, { kind: 'gone', state: notification.state });
      return;
    }
    if (!model.registered || model.paused || before.state === 'suspended') {
      assert.equal(answer.kind, 'refused');
    }
    if (answer.kind === 'refused') {
      if (answer.reason === 'paused') assert.ok(model.paused);
      if (answer.reason === 'no_registration') assert.ok(!model.registered);
      return;
    }
    assert.ok(answer.kind === 'taken', 'what is owed is neither gone nor to be claimed again');
    const namesakes = model.attempts.filter((a) => a.asset === asset && a.taken.token === answer.token);
    assert.deepEqual(namesakes, [], 'an attempt has the name of another');
    const live = model.live(client.now());
    assert.ok(!live.some((a) => a.asset === asset), 'two live leases for one asset');
    assert.ok(live.length < maxInFlight, 'more in flight than the bound');
    if (before.state === 'failing') {
      assert.equal(mode, 'probe');
      assert.ok(
        !live.some((a) => a.mode === 'probe' && a.taken.epoch === answer.epoch),
        'two probes at once',
      );
      assert.ok(client.now() >= Number(before.probe_at));
    }
    assert.ok(client.now() >= Number(before.not_before ?? 0));
    model.attempts.push({ asset, id, mode, taken: answer, leaseUntil: since + leaseMs, settled: false });
  });

const answers = {
  ok: { ok: true },
  fail: { ok: false },
  gone: { ok: false, status: 410 },
  slowDown: { ok: false, status: 429, retryAfterMs: minute },
} as const;

/** Also a second time, after its lease, and for a URL or an epoch that is no more. */
const settle = (n: number, kind: keyof typeof answers) =>
  step(`settle ${n} ${kind}`, async (model, client) => {
    const open = model.attempts.filter((a) => !a.settled);
    const attempt = pick(n % 5 === 0 ? model.attempts : open, n);
    if (attempt === undefined) return;
    const { asset, id, taken } = attempt;
    const before = await client.endpoint();
    const settled = await client.settle({ platformId: asset, notificationId: id }, taken, answers[kind]);
    const after = await client.endpoint();
    const sameUrl = Number(before.generation) === taken.generation;
    const current = model.owed.get(asset)?.id === id;
    if (!sameUrl) assert.deepEqual(after, before, 'an older generation settled something');
    if (Number(before.epoch) !== taken.epoch) {
      assert.deepEqual(
        [after.state, after.epoch, after.failures],
        [before.state, before.epoch, before.failures],
      );
    }
    if (attempt.settled) assert.ok(kind === 'ok' || after.failures === before.failures, 'counted twice');
    if (before.state === 'suspended' && sameUrl) assert.equal(after.state, 'suspended');
    attempt.settled = true;
    if (!current) {
      assert.equal(settled.outcome, 'gone');
    } else if (sameUrl && kind === 'ok') {
      assert.equal(settled.outcome, 'delivered');
      model.end(id, 'delivered');
    } else if (settled.outcome === 'failed') {
      assert.ok(
        sameUrl && after.state === 'active',
        'nothing fails by its window while its endpoint is sick',
      );
      model.end(id, 'failed');
    } else {
      assert.equal(settled.outcome, 'retry');
    }
  });

const plan = step('plan', async (model, client) => {
  const answer = await planCatchUp(client.db, client.clientToken, { limit: 10, retentionMs });
  const owed = await client.db.redis.hgetall(client.db.client(client.clientToken).owed);
  for (const [asset, { id }] of [...model.owed]) if (owed[asset] === undefined) model.end(id, 'failed');
  assert.equal(answer.owed, model.owed.size);
  for (const item of answer.items) assert.equal(model.owed.get(item.platformId)?.id, item.notificationId);
  if (!model.registered || model.paused) assert.deepEqual(answer.items, []);
  if (answer.mode === 'probe') assert.ok(answer.items.length <= 1);
  if (answer.owed > 0 && answer.items.length === 0) assert.ok(answer.inMs > 0, 'it sleeps until something');
});

const operator: Step[] = [
  step('pause', async (model, client) => {
    assert.equal(await pauseEndpoint(client.db, client.clientToken), !model.paused);
    model.paused = true;
  }),
  step('unpause', async (model, client) => {
    assert.equal(await unpauseEndpoint(client.db, client.clientToken), model.paused);
    model.paused = false;
  }),
  step('resume', async (_model, client) => {
    const sick = ['failing', 'suspended'].includes((await client.endpoint()).state ?? 'active');
    assert.equal(await resumeEndpoint(client.db, client.clientToken), sick);
  }),
  step('reset', async (model, client) => {
    const answer = await resetRegistration(client.db, client.clientToken);
    assert.equal(answer?.owed, model.registered ? model.owed.size : undefined);
    model.registered = false;
  }),
  step('register', async (model, client) => {
    if (!model.registered) await client.register();
    model.registered = true;
  }),
  step('change', async (model, client) => {
    const answer = await changeRegistration(client.db, client.clientToken, 'https://elsewhere.example/');
    assert.equal(answer !== undefined, model.registered);
  }),
];

/** What lets deliveries go on happens more often than what stops them. */
const putBack = operator.filter((s) => ['unpause', 'register', 'resume'].includes(String(s)));

const cancel = (n: number) =>
  step(`cancel ${n}`, async (model, client) => {
    const [id, notification] = pick([...model.notifications], n) ?? [];
    if (id === undefined) return;
    const waits = notification?.state === 'waiting';
    assert.equal(await cancelNotification(client.db, client.clientToken, id), waits);
    if (waits) model.end(id, 'cancelled');
  });

const sendNow = (n: number) =>
  step(`make due ${n}`, async (model, client) => {
    const [id, notification] = pick([...model.notifications], n) ?? [];
    if (id === undefined) return;
    const expected = notification?.state === 'waiting' ? 'due' : 'ended';
    assert.equal(await makeDue(client.db, client.clientToken, id), expected);
  });

const recover = step('recover', async (model, client) => {
  const range = { since: 0, until: Number.MAX_SAFE_INTEGER, dryRun: false };
  const failed = [...model.notifications].filter(
    ([id, n]) => n.state === 'failed' && !model.owed.has(n.asset) && model.knownOf(n.asset).last === id,
  );
  const { count } = await recoverFailed(client.db, client.clientToken, range);
  // A record is kept for 14 days: what failed before that is not found any more.
  assert.ok(count <= failed.length);
  const owed = await client.db.redis.hgetall(client.db.client(client.clientToken).owed);
  for (const [id, notification] of failed) {
    if (owed[notification.asset] !== id) continue;
    notification.state = 'waiting';
    model.owed.set(notification.asset, { id, live: notification.live });
  }
});

const pass = (ms: number) =>
  step(`pass ${ms} ms`, async (_model, client) => {
    client.pass(ms);
  });

/** Every claimed notification has ended or is owed, and every key of what is owed says the same. */
async function holds(model: Model, client: DeliveryClient): Promise<void> {
  const keys = client.db.client(client.clientToken);
  const { redis } = client.db;
  const [owed, since, live, backfill] = await Promise.all([
    redis.hgetall(keys.owed),
    redis.zrange(keys.owedSince, 0, '-1'),
    redis.zrange(keys.dueLive, 0, '-1'),
    redis.zrange(keys.dueBackfill, 0, '-1'),
  ]);
  const expected = Object.fromEntries([...model.owed].map(([asset, { id }]) => [asset, id]));
  assert.deepEqual({ ...owed }, expected, 'what is owed');
  const owedAssets = Object.keys(owed).sort();
  assert.deepEqual(since.sort(), owedAssets, 'each since some time');
  assert.deepEqual([...live, ...backfill].sort(), owedAssets, 'each due in one lane');
  for (const asset of backfill) assert.equal(model.owed.get(asset)?.live, false, 'live stays live');

  const ids = [...model.notifications.keys()];
  const records = await Promise.all(
    ids.map((id) => redis.hmget(keys.notification(id), 'state', 'by', 'priority')),
  );
  for (const [i, id] of ids.entries()) {
    const notification = model.notifications.get(id) as Notification;
    const [state, by, priority] = records[i] as (string | null)[];
    assert.equal(state, notification.state, `${id} of ${notification.asset}`);
    assert.equal(notification.state === 'waiting', owed[notification.asset] === id, 'owed or ended');
    if (notification.claim > 0) assert.equal(priority !== 'backfill', notification.live, 'live or backfill');
    if (notification.by === undefined) continue;
    assert.equal(by, notification.by);
    const other = model.notifications.get(notification.by);
    assert.equal(other?.asset, notification.asset, 'what took its place is there');
    assert.ok(notification.state === 'not_needed' || other.claim > notification.claim, 'and is newer');
  }
}

/** Once nothing is in its way any more, all that is owed is delivered: nothing was forgotten. */
async function drains(model: Model, client: DeliveryClient): Promise<void> {
  await unpauseEndpoint(client.db, client.clientToken);
  if (!model.registered) await client.register();
  for (let round = 0; round < 60; round++) {
    await resumeEndpoint(client.db, client.clientToken);
    const { items, mode, owed, inMs } = await planCatchUp(client.db, client.clientToken, {
      limit: 10,
      retentionMs: Number.MAX_SAFE_INTEGER,
    });
    if (owed === 0) return;
    for (const item of items) {
      const answer = await client.take({ ...item, maxInFlight }, mode);
      if (answer.kind === 'taken') await client.settle(item, answer, { ok: true });
    }
    client.pass(Math.max(inMs, second));
  }
  assert.fail('something is owed and nothing delivers it');
}

const anyNumber = fc.nat({ max: 20 });
const anyEvent = fc.record({
  platformId: fc.constantFrom(...assets),
  segments: fc.uniqueArray(fc.nat({ max: 19 }).map(String), { maxLength: 3 }),
  eventId: fc.constantFrom('e1', 'e2', 'e3', 'e4'),
  priority: fc.constantFrom('live' as const, 'live' as const, 'backfill' as const),
  notify: fc.constantFrom(true, true, true, true, false),
});
const mode = fc.constantFrom<TakeMode>('first', 'retry', 'drain', 'probe', 'probe');
const answer = fc.constantFrom<keyof typeof answers>(
  'ok',
  'ok',
  'ok',
  'fail',
  'fail',
  'fail',
  'fail',
  'gone',
  'slowDown',
);

const looks = anyEvent.map((given) => look((_model, client) => client.event(given), JSON.stringify(given)));
/** An event sent again, or another one that says the same. */
const repeats = fc.tuple(anyNumber, fc.boolean()).map(([n, same]) =>
  look(
    (model, client) => {
      const event = pick(model.accepted.slice(-5), n)?.event;
      if (event === undefined || same) return event;
      return client.event({
        platformId: event.platformId,
        segments: event.segments,
        priority: event.priority,
        notify: n % 3 !== 0,
      });
    },
    `${same ? 'again' : 'like'} ${n}`,
  ),
);
const claims = anyNumber.map(claim);
const takes = fc.tuple(anyNumber, mode).map(([n, m]) => take(n, m));
const settles = fc.tuple(anyNumber, answer).map(([n, a]) => settle(n, a));
const anyStep: fc.Arbitrary<Step>[] = [
  // What happens often stands here more than once.
  looks,
  looks,
  repeats,
  claims,
  claims,
  takes,
  takes,
  takes,
  settles,
  settles,
  settles,
  fc.oneof(anyNumber.map(cancel), anyNumber.map(sendNow), anyNumber.map(sendNow)),
  fc.constantFrom(plan, recover),
  fc.constantFrom(...operator, ...putBack),
  fc.constantFrom(second, second, leaseMs + second, minute, minute, 5 * hour, 2 * day).map(pass),
];

describe('known and owed, under every interleaving', () => {
  after(closeDeliveryClients);

  it('say what the model says, and keep its promises', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.commands(anyStep, { maxCommands: 100, size: 'max' }),
        fc.constantFrom(1, 2),
        async (steps, failingAfter) => {
          const client = await newDeliveryClient({ failingAfter, probeScheduleMs: [second, minute] });
          await setClient(client.db, client.clientToken, { maxInFlight });
          const model = new Model();
          await fc.asyncModelRun(() => ({ model, real: client }), steps);
          await drains(model, client);
          client.db.redis.disconnect();
        },
      ),
      { numRuns: 80, endOnFailure: false, interruptAfterTimeLimit: 40_000 },
    );
  });
});
