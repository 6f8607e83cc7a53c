/**
 * What is known and what is owed, as a model in plain words beside the real scripts: after every step of any
 * interleaving both must say the same, and what the model holds must keep the promise.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  listNotifications,
  type NotificationFilter,
} from '../../src/redis/notifications/notificationPages.js';
import { cancelNotification, makeDue, recoverFailed } from '../../src/redis/notifications/notifications.js';
import type { Place } from '../../src/redis/notifications/place.js';
import { replayDelivered } from '../../src/redis/notifications/replay.js';
import { readUpdates, type UpdatePlace } from '../../src/redis/notifications/updates.js';
import type { ArrivedEvent, Claim } from '../../src/redis/owed/claim.js';
import { owedOverview } from '../../src/redis/owed/owedClients.js';
import { planCatchUp } from '../../src/redis/owed/plan.js';
import type { Settled } from '../../src/redis/owed/settle.js';
import type { Take, TakeMode, Taken } from '../../src/redis/owed/take.js';
import type { Lease, Wanted } from '../../src/redis/owed/turn.js';
import { setClient } from '../../src/redis/records/clients.js';
import {
  getEndpoint,
  pauseEndpoint,
  resumeEndpoint,
  unpauseEndpoint,
} from '../../src/redis/records/endpoint.js';
import { changeRegistration, resetRegistration } from '../../src/redis/records/registrations.js';
import {
  type Answer,
  closeDeliveryClients,
  type DeliveryClient,
  day,
  type Flight,
  hour,
  leaseMs,
  minute,
  newDeliveryClient,
  newNonce,
  second,
  whatIsOwed,
} from './deliveryClient.js';

const assets = ['a', 'b', 'c'];
const maxInFlight = 2;
const retentionMs = 30 * day;

interface Notification {
  asset: string;
  state: 'waiting' | 'delivered' | 'superseded' | 'not_needed' | 'failed' | 'cancelled';
  claim: number;
  live: boolean;
  by?: string;
}

interface OwedAsset {
  id: string;
  live: boolean;
  /** Not before this claim; once it was read, always the same. */
  notBefore: number;
  since?: number;
}

interface Attempt {
  asset: string;
  id: string;
  mode: TakeMode;
  taken: Taken;
  /** Its lease ends between these times, if nobody settles it. */
  leaseFrom: number;
  leaseUntil: number;
  settled: boolean;
}

class Model {
  registered = true;
  paused = false;
  known = new Map<string, { segments: Set<string>; claim: number; last: string }>();
  notifications = new Map<string, Notification>();
  owed = new Map<string, OwedAsset>();
  /** The attempt that holds an asset, until it is settled or somebody finds its lease ended. */
  holders = new Map<string, Attempt>();
  /** Events that were published, claimed or not, with the number of the claim that may be lost. */
  accepted: { event: ArrivedEvent; claim: number }[] = [];
  attempts: Attempt[] = [];
  /** Assets with new segments since the last read of the feed, which every step reads; and the place of that read. */
  untold = new Set<string>();
  place: UpdatePlace | undefined;

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

  /** Under a lease that surely has not ended. */
  live(now: number): Attempt[] {
    return this.attempts.filter((a) => !a.settled && a.leaseFrom > now);
  }

  waiting(): [string, Notification][] {
    return [...this.notifications].filter(([, { state }]) => state === 'waiting');
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

/** Says what a claim of an event that arrives must answer, and does the same to the model. */
function arrives(model: Model, event: ArrivedEvent, now: number): (answer: Claim) => void {
  const known = model.knownOf(event.platformId);
  const { notificationId: id } = event;
  const news = event.segments.filter((one) => !known.segments.has(one));
  if (event.notify && known.last === id) return isFound(model, id, known.claim);
  if (event.notify && model.registered && news.length > 0) {
    model.accepted.push({ event, claim: known.claim + 1 });
    return becomesOwed(model, event, now);
  }
  const reason = !event.notify ? 'silent' : model.registered ? 'no_new_segments' : 'not_registered';
  for (const one of news) known.segments.add(one);
  if (reason === 'not_registered' && news.length > 0) model.untold.add(event.platformId);
  return (answer) => assert.deepEqual(answer, { kind: 'none', reason });
}

/** Claimed before: it waits, or has ended. */
function isFound(model: Model, id: string, claim: number): (answer: Claim) => void {
  const state = model.notifications.get(id)?.state;
  return (answer) => {
    if (state === 'waiting') assert.deepEqual(bare(answer), { kind: 'claimed', claim, again: true });
    else assert.ok(answer.kind === 'ended' && answer.state === state, JSON.stringify(answer));
  };
}

function becomesOwed(model: Model, event: ArrivedEvent, now: number): (answer: Claim) => void {
  const { platformId: asset, notificationId: id } = event;
  const known = model.knownOf(asset);
  const claim = ++known.claim;
  known.last = id;
  for (const one of event.segments) known.segments.add(one);
  const older = model.owed.get(asset);
  const live = event.priority === 'live' || older?.live === true;
  model.notifications.set(id, { asset, state: 'waiting', claim, live });
  model.untold.add(asset);
  if (older !== undefined) model.end(older.id, 'superseded', id);
  model.owed.set(asset, { notBefore: now, ...older, id, live });
  const supersedes = older === undefined ? {} : { supersedes: true };
  return (answer) => assert.deepEqual(bare(answer), { kind: 'claimed', claim, again: false, ...supersedes });
}

/** Without what other assertions look at. */
function bare(answer: Claim): object {
  const { held: _, take: __, ...rest } = answer as Claim & { held?: unknown; take?: unknown };
  return rest;
}

function isHeld(model: Model, endpoint: Record<string, string>, answer: Claim): void {
  if (answer.kind !== 'claimed') return;
  const held = model.paused ? 'paused' : endpoint.state === 'suspended' ? 'suspended' : undefined;
  assert.equal(answer.held, held);
}

type Events = (model: Model, client: DeliveryClient) => ArrivedEvent[];

const claim = (events: Events, name: string) =>
  step(`claim ${name}`, async (model, client) => {
    const endpoint = await client.endpoint();
    for (const event of events(model, client)) {
      const expect = arrives(model, event, client.now());
      const answer = await client.claim(event);
      expect(answer);
      isHeld(model, endpoint, answer);
    }
  });

/** All of them in one call, which takes what it may; sometimes its answer is lost, and it is called again. */
const claimAndTake = (events: Events, name: string, isLost: boolean) =>
  step(`claim and take ${name}${isLost ? ', twice' : ''}`, async (model, client) => {
    const given = events(model, client);
    const call = { maxInFlight, nonce: newNonce() };
    const before = await client.endpoint();
    const from = client.now();
    if (isLost) {
      for (const event of given) arrives(model, event, from);
      await client.claimAndTake(given, call);
    }
    const expected = given.map((event) => arrives(model, event, from));
    const { claims } = await client.claimAndTake(given, call);
    for (const [i, event] of given.entries()) {
      const answer = claims[i] as Claim;
      expected[i]?.(answer);
      isHeld(model, before, answer);
      if (answer.kind !== 'claimed') continue;
      assert.ok(answer.take, 'what is claimed asks for a place');
      const { platformId, notificationId } = event;
      const wanted: Wanted = { platformId, notificationId, mode: 'first' };
      isTaken(model, client, before, from, wanted, answer.take);
    }
  });

/** Its claim is lost before Redis has it. */
const lose = (events: Events, name: string) =>
  step(`lose ${name}`, async (model, client) => {
    for (const event of events(model, client)) {
      const known = model.knownOf(event.platformId);
      const isNew = event.segments.some((one) => !known.segments.has(one));
      if (event.notify && isNew) model.accepted.push({ event, claim: known.claim + 1 });
    }
  });

const claimAgain = (n: number) =>
  step(`claim again ${n}`, async (model, client) => {
    const accepted = pick(model.accepted.slice(-5), n);
    if (accepted === undefined) return;
    const { event, claim } = accepted;
    const { platformId: asset, notificationId: id } = event;
    const known = model.knownOf(asset);
    const state = model.notifications.get(id)?.state;
    const now = client.now();
    const answer = await client.claimAgain(event, claim);
    if (state !== undefined) {
      isFound(model, id, known.claim)(answer);
    } else if (event.segments.every((one) => known.segments.has(one)) && known.claim >= claim) {
      assert.deepEqual(answer, { kind: 'not_needed', by: known.last });
      model.notifications.set(id, { asset, state: 'not_needed', claim: 0, live: false, by: known.last });
    } else {
      becomesOwed(model, event, now)(answer);
    }
  });

/** The answers that a take may give, and their effect on the model. `endpoint`: its state right before. */
function isTaken(
  model: Model,
  client: DeliveryClient,
  endpoint: Record<string, string>,
  from: number,
  { platformId: asset, notificationId: id, mode }: Wanted,
  answer: Take,
): void {
  const state = model.notifications.get(id)?.state;
  if (model.owed.get(asset)?.id !== id) {
    assert.ok(answer.kind === 'gone' && answer.state === state, JSON.stringify(answer));
    return;
  }
  if (!model.registered || model.paused || endpoint.state === 'suspended') {
    assert.equal(answer.kind, 'refused');
  }
  if (answer.kind === 'refused') {
    if (answer.reason === 'paused') assert.ok(model.paused);
    if (answer.reason === 'no_registration') assert.ok(!model.registered);
    if (answer.reason === 'suspended') assert.equal(endpoint.state, 'suspended');
    if (answer.reason === 'leased') assert.ok(model.holders.has(asset), 'leased by nobody');
    return;
  }
  assert.ok(answer.kind === 'taken', 'what is owed is neither gone nor to be claimed again');
  const now = client.now();
  const holder = model.holders.get(asset);
  if (holder?.taken.token === answer.token && holder.id === id && !holder.settled) {
    holder.leaseFrom = from + leaseMs;
    holder.leaseUntil = now + leaseMs;
    return;
  }
  const namesakes = model.attempts.filter((a) => a.asset === asset && a.taken.token === answer.token);
  assert.deepEqual(namesakes, [], 'an attempt has the name of another');
  const live = model.live(now);
  assert.ok(!live.some((a) => a.asset === asset), 'two live leases for one asset');
  assert.ok(live.length < maxInFlight, 'more in flight than the bound');
  if (endpoint.state === 'failing') {
    assert.equal(mode, 'probe');
    const probes = live.filter((a) => a.mode === 'probe' && a.taken.epoch === answer.epoch);
    assert.deepEqual(probes, [], 'two probes at once');
    assert.ok(now >= Number(endpoint.probe_at));
  }
  assert.ok(now >= Number(endpoint.not_before ?? 0));
  const attempt = { asset, id, mode, taken: answer, leaseFrom: from + leaseMs, leaseUntil: now + leaseMs };
  model.attempts.push({ ...attempt, settled: false });
  model.holders.set(asset, model.attempts.at(-1) as Attempt);
}

const answers = {
  ok: { ok: true },
  fail: { ok: false },
  gone: { ok: false, status: 410 },
  slowDown: { ok: false, status: 429, retryAfterMs: minute },
} as const satisfies Record<string, Answer>;
type AnswerName = keyof typeof answers;

interface Drawn {
  verdicts: [n: number, answer: AnswerName][];
  givenBack: number[];
  extended: number[];
  wanted: [n: number, mode: TakeMode][];
  isLost: boolean;
}

/**
 * Settles, gives back, extends and takes, several of each in one call: verdicts also a second time, after their lease,
 * and for a URL or an epoch that is no more. Sometimes its answer is lost, and it is called again.
 */
const turn = (drawn: Drawn) =>
  step(`turn ${JSON.stringify(drawn)}`, async (model, client) => {
    const open = model.attempts.filter((a) => !a.settled);
    const choose = (n: number) => pick(n % 5 === 0 ? model.attempts : open, n);
    const verdicts = drawn.verdicts.flatMap(([n, name]) => {
      const attempt = choose(n);
      return attempt === undefined ? [] : [{ attempt, name }];
    });
    const givenBack = drawn.givenBack.flatMap((n) => choose(n) ?? []);
    const extended = drawn.extended.flatMap((n) => choose(n) ?? []);
    const wanted = drawn.wanted.flatMap(([n, mode]): Wanted[] => {
      // Mostly something owed, now and then something that has ended.
      const [id, of] = pick(n % 7 === 0 ? [...model.notifications] : model.waiting(), n) ?? [];
      if (id === undefined || of === undefined) return [];
      return [{ platformId: of.asset, notificationId: id, claim: of.claim, mode }];
    });
    const request = {
      nonce: newNonce(),
      verdicts: verdicts.map(({ attempt, name }) =>
        client.verdict(
          { platformId: attempt.asset, notificationId: attempt.id },
          attempt.taken,
          answers[name],
        ),
      ),
      givenBack: givenBack.map((attempt) => ({ ...leaseOf(attempt), inMs: second })),
      extended: extended.map(leaseOf),
      wanted,
    };
    const before = await client.endpoint();
    const from = client.now();
    const turned = await client.turn(request, { maxInFlight });
    const after = await client.endpoint();
    healthIsRight(verdicts, before, after);
    for (const [i, { attempt, name }] of verdicts.entries()) {
      isSettled(model, attempt, name, before, after, turned.settled[i] as Settled);
    }
    for (const attempt of givenBack) {
      if (model.holders.get(attempt.asset) === attempt) model.holders.delete(attempt.asset);
      attempt.settled = true;
    }
    for (const [i, attempt] of extended.entries()) {
      if (turned.extended[i] === true) {
        assert.equal(model.holders.get(attempt.asset), attempt, 'it has lost its lease');
        attempt.leaseFrom = from + leaseMs;
        attempt.leaseUntil = client.now() + leaseMs;
      } else if (model.holders.get(attempt.asset) === attempt) {
        assert.ok(client.now() >= attempt.leaseFrom, 'its lease was taken away');
      }
    }
    const takes = [...turned.takes];
    for (const [i, one] of wanted.entries()) {
      isTaken(model, client, after, from, one, takes[i] as Take);
    }
    if (drawn.isLost) {
      const again = await client.turn(request, { maxInFlight });
      isUnchanged(after, await client.endpoint());
      for (const [i, { attempt }] of verdicts.entries()) {
        assert.equal(again.settled[i]?.change, undefined, 'it has counted twice');
        const state = model.notifications.get(attempt.id)?.state;
        if (again.settled[i]?.outcome === 'delivered') assert.equal(state, 'delivered');
      }
      for (const attempt of extended) attempt.leaseUntil = client.now() + leaseMs;
      for (const [i, one] of wanted.entries()) {
        if (takes[i]?.kind !== 'taken') continue;
        // Of two that ask for the same in one turn, one holds it.
        const same = wanted.map(({ notificationId }, n) => notificationId === one.notificationId && n);
        const own = same.flatMap((n) =>
          n === false || again.takes[n]?.kind !== 'taken' ? [] : again.takes[n],
        );
        assert.deepEqual(own, [takes[i]], 'it has found its own lease');
        isTaken(model, client, after, from, one, takes[i] as Take);
      }
    }
  });

function leaseOf({ asset, taken }: Attempt): Lease {
  return { platformId: asset, token: taken.token };
}

/** A turn told again counts nobody's failure twice. */
function isUnchanged(before: Record<string, string>, after: Record<string, string>): void {
  const health = ({ state, epoch, not_before }: Record<string, string>) => ({ state, epoch, not_before });
  assert.deepEqual(health(after), health(before));
  assert.ok(Number(after.failures ?? 0) <= Number(before.failures ?? 0));
}

function healthIsRight(
  verdicts: readonly { attempt: Attempt; name: AnswerName }[],
  before: Record<string, string>,
  after: Record<string, string>,
): void {
  const ofThisUrl = verdicts.filter(({ attempt }) => Number(before.generation) === attempt.taken.generation);
  const health = ({ state, epoch, failures }: Record<string, string>) => ({ state, epoch, failures });
  if (ofThisUrl.length === 0) {
    const { probe: _, rate_at: __, drain_at: ___, catch_up_until: ____, ...rest } = before;
    const { probe: _a, rate_at: _b, drain_at: _c, catch_up_until: _d, ...changed } = after;
    assert.deepEqual(changed, rest, 'an older generation settled something');
  }
  if (ofThisUrl.every(({ attempt }) => attempt.taken.epoch !== Number(before.epoch))) {
    assert.deepEqual(health(after), health(before), 'an older epoch changed its health');
  }
  if (ofThisUrl.every(({ attempt, name }) => attempt.settled && name !== 'ok')) {
    assert.equal(after.failures, before.failures, 'counted twice');
  }
  if (before.state === 'suspended') assert.equal(after.state, 'suspended');
}

function isSettled(
  model: Model,
  attempt: Attempt,
  name: AnswerName,
  before: Record<string, string>,
  after: Record<string, string>,
  settled: Settled,
): void {
  const { asset, id, taken } = attempt;
  const isThisUrl = Number(before.generation) === taken.generation;
  const isHolder = model.holders.get(asset) === attempt;
  const owed = model.owed.get(asset);
  const isCurrent = owed?.id === id;
  attempt.settled = true;
  const wasDelivered = model.notifications.get(id)?.state === 'delivered';
  if (!isCurrent) {
    assert.equal(settled.outcome, name === 'ok' && wasDelivered ? 'delivered' : 'gone');
    if (isHolder) assert.equal(settled.next, owed?.id, 'what comes next');
  } else if (isThisUrl && name === 'ok') {
    assert.equal(settled.outcome, 'delivered');
    model.end(id, 'delivered');
  } else if (settled.outcome === 'failed') {
    assert.ok(isThisUrl && after.state === 'active', 'fails by its window only while its endpoint is well');
    model.end(id, 'failed');
  } else {
    assert.equal(settled.outcome, 'retry');
  }
  if (isHolder) model.holders.delete(asset);
}

const plan = step('plan', async (model, client) => {
  const answer = await planCatchUp(client.db, client.clientToken, { limit: 10, retentionMs });
  const { waiting, flight } = await whatIsOwed(client);
  for (const [asset, { id, since, notBefore }] of [...model.owed]) {
    if (waiting[asset] !== undefined || flight[asset] !== undefined) continue;
    assert.ok(client.now() - (since ?? notBefore) >= retentionMs, 'failed before its time');
    model.end(id, 'failed');
  }
  assert.equal(answer.owed, Object.keys(waiting).length);
  for (const item of answer.items) {
    assert.equal(model.owed.get(item.platformId)?.id, item.notificationId);
    assert.equal(flight[item.platformId], undefined, 'what is in flight is not drained');
    assert.equal(item.priority === 'live', model.owed.get(item.platformId)?.live);
  }
  if (!model.registered || model.paused) assert.deepEqual(answer.items, []);
  if (answer.mode === 'probe') assert.ok(answer.items.length <= 1);
  if (answer.owed > 0 && answer.items.length === 0) assert.ok(answer.inMs > 0, 'it sleeps until something');
});

const sweep = step('sweep', async (_model, client) => {
  const at = client.now();
  const overview = await owedOverview(client.db, client.clientToken, retentionMs);
  const { waiting, flight } = await whatIsOwed(client);
  const held = Object.values(flight);
  assert.equal(overview.owed, Object.keys(waiting).length + held.length);
  assert.equal((await getEndpoint(client.db, client.clientToken)).inFlight, held.length);
  assert.ok(
    held.every((one) => one.leaseEndsAt > at - 1),
    'a lease outlives its end',
  );
});

/** Page by page: what is owed, each once, and of an asset every notification that was ever made. */
const lists = step('lists', async (model, client) => {
  const listed = async (filter: Omit<NotificationFilter, 'limit'>): Promise<string[]> => {
    const ids: string[] = [];
    let behind: Place | undefined;
    do {
      const page = await listNotifications(client.db, client.clientToken, {
        ...filter,
        limit: 2,
        behind,
      });
      assert.ok(page.notifications.length <= 2);
      ids.push(...page.notifications.map((one) => one.notificationId));
      behind = page.next;
    } while (behind !== undefined);
    return ids;
  };
  const owed = [...model.owed.values()].map(({ id }) => id);
  assert.deepEqual((await listed({ state: 'waiting' })).sort(), owed.sort(), 'what waits');
  for (const platformId of assets) {
    const made = [...model.notifications].filter(([, { asset }]) => asset === platformId).map(([id]) => id);
    assert.deepEqual((await listed({ platformId })).sort(), made.sort(), `those of ${platformId}`);
  }
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
    const { waiting, flight } = await whatIsOwed(client);
    const owed = Object.keys(waiting).length + Object.keys(flight).length;
    assert.equal(answer?.owed, model.registered ? owed : undefined);
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

/** Steps that let deliveries go on are more frequent than steps that stop them. */
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
  const now = client.now();
  const failed = [...model.notifications].filter(
    ([id, n]) => n.state === 'failed' && !model.owed.has(n.asset) && model.knownOf(n.asset).last === id,
  );
  const { count } = await recoverFailed(client.db, client.clientToken, range);
  assert.equal(count, failed.length);
  for (const [id, notification] of failed) {
    notification.state = 'waiting';
    model.owed.set(notification.asset, { id, live: notification.live, notBefore: now });
  }
});

const replay = step('replay', async (model, client) => {
  const now = client.now();
  const told = [...model.notifications.values()].filter(({ state }) => state === 'delivered');
  const assets = new Set(told.map(({ asset }) => asset).filter((asset) => !model.owed.has(asset)));
  const range = { since: 0, until: Number.MAX_SAFE_INTEGER };
  for (const dryRun of [true, false]) {
    const { count } = await replayDelivered(client.db, client.clientToken, { ...range, dryRun });
    assert.equal(count, assets.size);
  }
  for (const asset of assets) {
    const { last: id } = model.knownOf(asset);
    const notification = model.notifications.get(id);
    assert.ok(notification);
    Object.assign(notification, { state: 'waiting', live: false });
    model.owed.set(asset, { id, live: false, notBefore: now });
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
  const [{ waiting, flight }, since, live, backfill, endpoint] = await Promise.all([
    whatIsOwed(client),
    redis.zrange(keys.owedSince, 0, '-1', 'WITHSCORES'),
    redis.zrange(keys.dueLive, 0, '-1'),
    redis.zrange(keys.dueBackfill, 0, '-1'),
    getEndpoint(client.db, client.clientToken),
  ]);
  await readsOn(model, client);
  const owed: Record<string, string> = { ...waiting };
  for (const [asset, { id, newer }] of Object.entries(flight)) {
    assert.equal(waiting[asset], undefined, 'in flight and waiting');
    if (newer !== '!') owed[asset] = newer ?? id;
  }
  const expected = Object.fromEntries([...model.owed].map(([asset, { id }]) => [asset, id]));
  assert.deepEqual(owed, expected, 'what is owed');
  const waitingAssets = Object.keys(waiting).sort();
  const sinceOf = new Map(since.flatMap((asset, i) => (i % 2 ? [] : [[asset, Number(since[i + 1])]])));
  assert.deepEqual([...sinceOf.keys()].sort(), waitingAssets, 'each since some time');
  assert.deepEqual([...live, ...backfill].sort(), waitingAssets, 'each due in one lane');
  for (const asset of waitingAssets) {
    assert.equal(live.includes(asset), model.owed.get(asset)?.live, 'in its own lane');
  }
  assert.equal(endpoint.owed, waitingAssets.length + Object.keys(flight).length, 'all that is counted');
  assert.equal(endpoint.inFlight, Object.keys(flight).length);
  for (const [asset, entry] of model.owed) {
    const at = flight[asset]?.since ?? sinceOf.get(asset);
    assert.ok(at !== undefined && at >= entry.notBefore - 1, 'owed since its claim');
    if (entry.since !== undefined) assert.equal(at, entry.since, 'its "owed since" is kept');
    entry.since = at;
  }
  flightIsHeld(model, client, flight);

  const ids = [...model.notifications.keys()];
  const records = await Promise.all(
    ids.map((id) => redis.hmget(keys.notification(id), 'state', 'by', 'priority')),
  );
  for (const [i, id] of ids.entries()) {
    const notification = model.notifications.get(id) as Notification;
    const [state, by, priority] = records[i] as (string | null)[];
    assert.equal(state ?? 'waiting', notification.state, `${id} of ${notification.asset}`);
    assert.equal(notification.state === 'waiting', owed[notification.asset] === id, 'owed or ended');
    if (notification.claim > 0) assert.equal(priority !== 'backfill', notification.live, 'live or backfill');
    if (notification.by === undefined) continue;
    assert.equal(by, notification.by);
    const other = model.notifications.get(notification.by);
    assert.equal(other?.asset, notification.asset, 'what took its place is there');
    assert.ok(notification.state === 'not_needed' || other.claim > notification.claim, 'and is newer');
  }
}

/** Continues where the last step ended: no update is skipped, whenever its event was accepted and claimed. */
async function readsOn(model: Model, client: DeliveryClient): Promise<void> {
  for (let found = 1; found > 0; ) {
    const options = { limit: 2, after: model.place };
    const page = await readUpdates(client.db, client.clientToken, options);
    assert.ok(page, 'the place is known');
    model.place = page.end;
    found = page.updates.length;
    for (const { platformId } of page.updates) model.untold.delete(platformId);
  }
  assert.deepEqual([...model.untold], [], 'updates that were skipped');
}

/** Each entry is one attempt's, and says whose; it leaves at the attempt's end or after its lease. */
function flightIsHeld(model: Model, client: DeliveryClient, flight: Record<string, Flight>): void {
  for (const [asset, entry] of Object.entries(flight)) {
    const holder = model.holders.get(asset);
    assert.ok(holder, 'in flight without an attempt');
    assert.deepEqual([entry.token, entry.id], [holder.taken.token, holder.id]);
    assert.ok(entry.leaseEndsAt >= holder.leaseFrom - 1 && entry.leaseEndsAt <= holder.leaseUntil + 1);
    const owed = model.owed.get(asset);
    assert.equal(entry.newer, owed === undefined ? '!' : owed.id === holder.id ? undefined : owed.id);
    if (owed !== undefined) assert.equal(entry.lane, owed.live ? 'L' : 'B');
  }
  for (const [asset, holder] of model.holders) {
    if (flight[asset] !== undefined) continue;
    assert.ok(client.now() >= holder.leaseFrom, 'an attempt lost its lease');
    model.holders.delete(asset);
  }
}

/** Once nothing is in its way any more, all that is owed is delivered: nothing was forgotten. */
async function drains(model: Model, client: DeliveryClient): Promise<void> {
  await unpauseEndpoint(client.db, client.clientToken);
  if (!model.registered) await client.register();
  for (let round = 0; round < 60; round++) {
    await resumeEndpoint(client.db, client.clientToken);
    const { items, mode, inMs } = await planCatchUp(client.db, client.clientToken, {
      limit: 10,
      retentionMs: Number.MAX_SAFE_INTEGER,
    });
    const { waiting, flight } = await whatIsOwed(client);
    if (Object.keys({ ...waiting, ...flight }).length === 0) return;
    const { takes } = await client.turn(
      { wanted: items.map((item) => ({ ...item, mode })) },
      { maxInFlight },
    );
    const verdicts = items.flatMap((item, i) => {
      const taken = takes[i];
      return taken?.kind === 'taken' ? [client.verdict(item, taken, { ok: true })] : [];
    });
    await client.turn({ verdicts });
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

let arrivals = 0;
/** Makes an event that one of three processes with different clocks accepted. */
const arrived = (client: DeliveryClient, given: Parameters<DeliveryClient['event']>[0]): ArrivedEvent =>
  client.event({ ...given, acceptedAt: client.now() - (arrivals++ % 3) * 40 });

const one = anyEvent.map(
  (given) => [(_, client) => [arrived(client, given)], JSON.stringify(given)] as [Events, string],
);
const several = fc
  .array(anyEvent, { minLength: 2, maxLength: 4 })
  .map(
    (given) =>
      [(_, client) => given.map((event) => arrived(client, event)), JSON.stringify(given)] as [
        Events,
        string,
      ],
  );
/** An event sent again, or another one that says the same. */
const repeated = fc.tuple(anyNumber, fc.boolean()).map(([n, isSame]) => {
  const events: Events = (model, client) => {
    const event = pick(model.accepted.slice(-5), n)?.event;
    if (event === undefined) return [];
    const { platformId, segments, priority } = event;
    return [isSame ? event : client.event({ platformId, segments, priority, notify: n % 3 !== 0 })];
  };
  return [events, `${isSame ? 'again' : 'like'} ${n}`] as [Events, string];
});
const anyEvents = fc.oneof(one, one, several, repeated);
const claims = anyEvents.map(([events, name]) => claim(events, name));
const takingClaims = fc
  .tuple(anyEvents, fc.constantFrom(false, false, true))
  .map(([[events, name], isLost]) => claimAndTake(events, name, isLost));
const takes = fc.tuple(anyNumber, mode);
const verdicts = fc.tuple(anyNumber, answer);
const nothing: Drawn = { verdicts: [], givenBack: [], extended: [], wanted: [], isLost: false };
const oneTake = takes.map((take) => turn({ ...nothing, wanted: [take] }));
const oneVerdict = verdicts.map((verdict) => turn({ ...nothing, verdicts: [verdict] }));
const manyAtOnce = fc
  .record<Drawn>({
    verdicts: fc.array(verdicts, { maxLength: 3 }),
    givenBack: fc.array(anyNumber, { maxLength: 1 }),
    extended: fc.array(anyNumber, { maxLength: 1 }),
    wanted: fc.array(takes, { maxLength: 4 }),
    isLost: fc.constantFrom(false, false, true),
  })
  .map(turn);
const anyStep: fc.Arbitrary<Step>[] = [
  // Frequent steps are listed more than once.
  claims,
  takingClaims,
  takingClaims,
  one.map(([events, name]) => lose(events, name)),
  anyNumber.map(claimAgain),
  oneTake,
  oneTake,
  oneVerdict,
  oneVerdict,
  manyAtOnce,
  manyAtOnce,
  manyAtOnce,
  fc.oneof(anyNumber.map(cancel), anyNumber.map(sendNow), anyNumber.map(sendNow)),
  fc.constantFrom(plan, sweep, recover, replay),
  fc.constant(lists),
  fc.constantFrom(...operator, ...putBack),
  fc.constantFrom(second, second, leaseMs + second, minute, minute, 5 * hour, 2 * day).map(pass),
];

describe('known and owed, in every interleaving', () => {
  after(closeDeliveryClients);

  it('agree with the model and keep its promises', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.commands(anyStep, { maxCommands: 100, size: 'max' }),
        fc.constantFrom(1, 2),
        async (steps, failingAfter) => {
          const client = await newDeliveryClient({ failingAfter, probeScheduleMs: [second, minute] });
          await setClient(client.db, client.clientToken, { maxInFlight });
          const model = new Model();
          await fc.asyncModelRun(() => ({ model, real: client }), steps);
          await lists.run(model, client);
          await drains(model, client);
          client.db.redis.disconnect();
        },
      ),
      { numRuns: 80, endOnFailure: false, interruptAfterTimeLimit: 40_000 },
    );
  });
});
