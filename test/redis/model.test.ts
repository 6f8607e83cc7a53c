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
import { getNotification } from '../../src/redis/notifications/notifications.js';
import type { Place } from '../../src/redis/notifications/place.js';
import {
  cancelNotification,
  recoverFailed,
  redeliver,
  replayDelivered,
} from '../../src/redis/notifications/redeliver.js';
import { readUpdates, type UpdatePlace } from '../../src/redis/notifications/updates.js';
import type { ArrivedEvent, Claim } from '../../src/redis/owed/claim.js';
import { readOverview, type Standing } from '../../src/redis/owed/standing.js';
import { newNonce, type Settled, type Taken, type Takes } from '../../src/redis/owed/turn.js';
import { setClient } from '../../src/redis/records/clients.js';
import { resumeEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { changeRegistration, resetRegistration } from '../../src/redis/records/registrations.js';
import {
  type Answer,
  closeDeliveryClients,
  type DeliveryClient,
  day,
  hour,
  leaseMs,
  minute,
  newDeliveryClient,
  second,
  whatIsOwed,
} from './deliveryClient.js';
import { nextTime, reasonOf, type Situation, standing, taken, type Waiting, type Why } from './reference.js';
import { snapshot } from './snapshot.js';

const assets = ['a', 'b', 'c', 'd', 'e'];

interface Notification {
  asset: string;
  state: 'waiting' | 'delivered' | 'superseded' | 'not_needed' | 'failed' | 'cancelled';
  claim: number;
  /** As its record says; its asset may have become live since. */
  live: boolean;
  /** Its workflow times its next retry. */
  timed: boolean;
  failures: number;
  by?: string | undefined;
}

/** A time that is known more or less exactly. */
type Range = [from: number, until: number];

interface OwedAsset {
  id: string;
  live: boolean;
  since: Range;
  /** While it waits. */
  due: Range;
}

/** The attempt that holds an asset, until it is settled or somebody finds its lease ended. */
interface Holder {
  token: string;
  id: string;
  lease: Range;
}

/** What Redis knows, and may lose. */
interface Facts {
  registered: boolean;
  paused: boolean;
  state: Situation['state'];
  epoch: number;
  generation: number;
  failures: number;
  /** Token and asset of the one probe. */
  probe: string;
  known: Map<string, { segments: Set<string>; claim: number; last: string }>;
  notifications: Map<string, Notification>;
  owed: Map<string, OwedAsset>;
  holders: Map<string, Holder>;
}

interface Limits {
  maxInFlight: number;
  perSecond: number;
  drainPerSecond: number;
}

interface Call {
  nonce: string;
  verdicts: { taken: Taken; name: AnswerName }[];
}

class Model {
  facts: Facts = {
    ...{ registered: true, paused: false, state: 'active', epoch: 1, generation: 1, failures: 0, probe: '' },
    ...{ known: new Map(), notifications: new Map(), owed: new Map(), holders: new Map() },
  };
  /** Events that were published, claimed or not, with the number of the claim that may be lost. */
  accepted: { event: ArrivedEvent; claim: number }[] = [];
  /** What processes were told to send, whether they have answered or not. */
  attempts: Taken[] = [];
  /** Calls whose answers were lost. */
  lost: Call[] = [];
  /** Assets with new segments since the last read of the feed, which every step reads; and the place of that read. */
  untold = new Set<string>();
  place: UpdatePlace | undefined;
  saved: { facts: Facts; restore(): Promise<void> } | undefined;

  constructor(readonly limits: Limits) {}

  knownOf(asset: string) {
    const known = this.facts.known.get(asset) ?? { segments: new Set<string>(), claim: 0, last: '' };
    this.facts.known.set(asset, known);
    return known;
  }

  notification(id: string): Notification {
    return this.facts.notifications.get(id) ?? assert.fail(`${id} was never claimed`);
  }

  end(id: string, state: Notification['state'], by?: string): void {
    const notification = this.notification(id);
    Object.assign(notification, { state, by });
    if (this.facts.owed.get(notification.asset)?.id === id) this.facts.owed.delete(notification.asset);
  }

  /** Ends the hold of an asset: if it is owed it waits until then. */
  land(asset: string, due?: Range): void {
    this.facts.holders.delete(asset);
    const owed = this.facts.owed.get(asset);
    if (owed !== undefined) owed.due = due ?? owed.since;
  }

  waiting(): [string, OwedAsset][] {
    return [...this.facts.owed].filter(([asset]) => !this.facts.holders.has(asset));
  }

  enter(state: Situation['state']): void {
    Object.assign(this.facts, { state, epoch: this.facts.epoch + 1, probe: '' });
    if (state === 'active') this.facts.failures = 0;
  }

  newUrl(): void {
    this.enter('active');
    this.facts.generation++;
  }

  pullForward(now: number): void {
    for (const [, owed] of this.waiting()) if (owed.due[0] > now) owed.due = owed.since;
  }
}

type Step = fc.AsyncCommand<Model, DeliveryClient>;
type Run = (model: Model, client: DeliveryClient) => Promise<void>;

/** A command that is always possible and checks everything after it ran. */
function step(name: string, run: Run): Step {
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

/** Runs a call: its present is between the two times. */
async function timed<T>(client: DeliveryClient, call: () => Promise<T>): Promise<[T, Range]> {
  const from = client.now();
  const answer = await call();
  return [answer, [from - 1, client.now() + 1]];
}

/** Says what a claim of an event that arrives must answer, and does the same to the model. */
function arrives(model: Model, event: ArrivedEvent, now: Range): (answer: Claim) => void {
  const known = model.knownOf(event.platformId);
  const { notificationId: id } = event;
  const news = event.segments.filter((one) => !known.segments.has(one));
  if (event.notify && known.last === id) return isFound(model, id);
  if (event.notify && model.facts.registered && news.length > 0) {
    model.accepted.push({ event, claim: known.claim + 1 });
    return becomesOwed(model, event, now);
  }
  const reason = !event.notify ? 'silent' : model.facts.registered ? 'no_new_segments' : 'not_registered';
  for (const one of news) known.segments.add(one);
  if (reason === 'not_registered' && news.length > 0) model.untold.add(event.platformId);
  return (answer) => assert.deepEqual(answer, { kind: 'none', reason });
}

/** Claimed before: it waits, or has ended. */
function isFound(model: Model, id: string): (answer: Claim) => void {
  const { state, asset } = model.notification(id);
  const { claim } = model.knownOf(asset);
  return (answer) => {
    if (state !== 'waiting')
      assert.ok(answer.kind === 'ended' && answer.state === state, JSON.stringify(answer));
    else
      assert.ok(answer.kind === 'claimed' && answer.again && answer.claim === claim, JSON.stringify(answer));
  };
}

function becomesOwed(model: Model, event: ArrivedEvent, now: Range): (answer: Claim) => void {
  const { platformId: asset, notificationId: id } = event;
  const known = model.knownOf(asset);
  const claim = ++known.claim;
  known.last = id;
  for (const one of event.segments) known.segments.add(one);
  const supersedes = model.facts.owed.has(asset);
  const live = owe(model, asset, id, event.priority === 'live', now);
  const notification = { asset, state: 'waiting' as const, claim, live, timed: true, failures: 0 };
  model.facts.notifications.set(id, notification);
  model.untold.add(asset);
  const { paused, state } = model.facts;
  const held = paused ? 'paused' : state === 'suspended' ? 'suspended' : undefined;
  const expected = { kind: 'claimed', claim, again: false, supersedes, held };
  return (answer) => assert.deepEqual(answer, expected);
}

/** Makes an asset owed. @returns whether it is live: because of this notification, or of the one that it supersedes */
function owe(model: Model, asset: string, id: string, isLive: boolean, now: Range): boolean {
  const { owed, holders } = model.facts;
  const older = owed.get(asset);
  const holder = holders.get(asset);
  if (older !== undefined) model.end(older.id, 'superseded', id);
  const live = isLive || older?.live === true;
  const since = older?.since ?? now;
  if (holder !== undefined && holder.lease[1] <= now[0]) holders.delete(asset);
  owed.set(asset, { id, live, since, due: since });
  return live;
}

const answers = {
  ok: { ok: true },
  fail: { ok: false },
  gone: { ok: false, status: 410 },
  slowDown: { ok: false, status: 429, retryAfterMs: minute },
} as const satisfies Record<string, Answer>;
type AnswerName = keyof typeof answers;

/** Does to the model what a verdict must do. @returns what it must answer */
function settles(
  model: Model,
  client: DeliveryClient,
  { taken: { platformId: asset, notificationId: id, token, generation, epoch }, name }: Call['verdicts'][0],
  settled: Settled,
  now: Range,
): unknown {
  const { facts } = model;
  const answer: Answer = answers[name];
  const isHolder = facts.holders.get(asset)?.token === token;
  const isThisUrl = generation === facts.generation;
  if (isThisUrl && (isHolder || answer.ok))
    changesHealth(model, client, { asset, token, epoch }, answer, settled, now);
  else assert.equal(settled.change, undefined);
  const owed = facts.owed.get(asset);
  const notification = facts.notifications.get(id);
  if (owed?.id !== id) {
    if (isHolder) model.land(asset);
    if (answer.ok && isThisUrl && isHolder && notification?.state === 'superseded')
      model.end(id, 'delivered');
    const isDelivered = answer.ok && notification?.state === 'delivered';
    return assert.equal(settled.outcome, isDelivered ? 'delivered' : 'gone');
  }
  assert.ok(notification);
  if (answer.ok && isThisUrl) {
    assert.equal(settled.outcome, 'delivered');
    const other = facts.holders.get(asset);
    if (isHolder || (other !== undefined && other.lease[1] <= now[0])) facts.holders.delete(asset);
    return model.end(id, 'delivered');
  }
  if (!isHolder) return assert.equal(settled.outcome, 'retry');
  if (!isThisUrl) {
    assert.deepEqual([settled.outcome, settled.inMs], ['retry', 0]);
    return model.land(asset, now);
  }
  assert.equal(settled.failures, ++notification.failures);
  if (settled.outcome === 'failed') {
    assert.equal(facts.state, 'active', 'it fails by its window only while its endpoint is well');
    facts.holders.delete(asset);
    return model.end(id, 'failed');
  }
  assert.equal(settled.outcome, 'retry');
  const { retryScheduleMs } = client.settings;
  const delay = retryScheduleMs[Math.min(notification.failures, retryScheduleMs.length) - 1] as number;
  assert.ok(settled.inMs !== undefined && settled.inMs >= delay && settled.inMs <= 1.1 * delay + 1);
  return model.land(asset, [now[0] + settled.inMs, now[1] + settled.inMs]);
}

function changesHealth(
  model: Model,
  { settings }: DeliveryClient,
  { asset, token, epoch }: { asset: string; token: string; epoch: number },
  { ok, status }: Answer,
  { change }: Settled,
  now: Range,
): void {
  const { facts } = model;
  const { state } = facts;
  let to: Situation['state'] = state;
  if (epoch === facts.epoch) {
    const isProbe = facts.probe === `${token} ${asset}`;
    if (ok && state === 'failing' && isProbe) to = 'active';
    else if (ok && state === 'active') facts.failures = 0;
    if (!ok) {
      facts.failures++;
      if (status === 410 && state !== 'suspended') to = 'suspended';
      else if (state === 'active' && facts.failures >= settings.failingAfter) to = 'failing';
      else if (state === 'failing' && isProbe) {
        facts.probe = '';
        // After 5 days and 20 failed attempts.
        if (change?.to === 'suspended') to = 'suspended';
      }
    }
  }
  assert.equal(change?.to ?? state, to);
  if (to === state) return;
  model.enter(to);
  if (to === 'active') model.pullForward(now[1]);
}

/** Whether an attempt that had to wait may still be sent. If not, its asset is given back. */
function looksAgain(
  model: Model,
  taken: Pick<Taken, 'platformId' | 'token' | 'generation'>,
  e: Endpoint,
  now: Range,
): boolean {
  const { facts } = model;
  const { platformId: asset, token, generation } = taken;
  const holder = facts.holders.get(asset);
  if (holder?.token !== token) return false;
  const isOpen =
    facts.registered &&
    !facts.paused &&
    generation === facts.generation &&
    e.notBefore <= now[1] &&
    facts.owed.get(asset)?.id === holder.id &&
    (facts.state === 'active' || (facts.state === 'failing' && facts.probe === `${token} ${asset}`));
  if (isOpen) holder.lease = [now[0] + leaseMs, now[1] + leaseMs];
  else model.land(asset);
  return isOpen;
}

type Endpoint = Pick<Situation, 'notBefore' | 'probeAt' | 'recoveredAt' | 'rateAt' | 'drainAt' | 'picks'> & {
  catchUpUntil: number | undefined;
};

async function endpointOf(client: DeliveryClient): Promise<Endpoint> {
  const e = await client.endpoint();
  const number = (name: string) => Number(e[name] ?? 0);
  return {
    ...{ notBefore: number('not_before'), probeAt: number('probe_at'), recoveredAt: number('recovered_at') },
    ...{ rateAt: number('rate_at'), drainAt: number('drain_at'), picks: number('picks') },
    catchUpUntil: e.catch_up_until === undefined ? undefined : number('catch_up_until'),
  };
}

/** What the reference needs to know. A time that is not known exactly counts as `now`. */
function situationOf(model: Model, e: Endpoint, now: number): Situation {
  const { facts, limits } = model;
  const { registered, paused, state, holders } = facts;
  const [token, asset = ''] = facts.probe.split(' ');
  const probe = holders.get(asset);
  const exactly = ([from, until]: Range) => (until - from > 1 && now >= from && now <= until ? now : until);
  return {
    ...{ registered, paused, state, ...e },
    probeUntil: probe !== undefined && probe.token === token && probe.lease[1] > now ? probe.lease[1] : 0,
    leases: [...holders.values()].map(({ lease }) => lease[1]),
    waiting: model.waiting().map(([asset, { live, due }]) => ({ asset, live, due: exactly(due) })),
    ...{ bound: limits.maxInFlight, perSecond: limits.perSecond, drainPerSecond: limits.drainPerSecond },
  };
}

/** What a call has taken is what the reference takes, and it becomes what the model's processes send. */
async function takes(
  model: Model,
  client: DeliveryClient,
  { nonce, most, isLost }: { nonce: string; most: number; isLost: boolean },
  before: Endpoint,
  now: Range,
  answer: Takes,
): Promise<void> {
  const { facts } = model;
  const after = await endpointOf(client);
  const { flight } = await whatIsOwed(client);
  const lease = answer.taken.map(({ platformId }) => flight[platformId]?.leaseEndsAt)[0];
  const moments = lease === undefined ? now : [lease - leaseMs];
  const gate = { ...after, rateAt: before.rateAt, drainAt: before.drainAt, picks: before.picks };
  if (facts.holders.size >= model.limits.maxInFlight && most > 0 && model.waiting().length > 0) {
    for (const [asset, { lease, token }] of [...facts.holders]) {
      const isLanded = flight[asset]?.token !== token;
      if (isLanded || lease[1] <= now[0]) assert.ok(lease[0] <= now[1], 'its lease was taken away');
      const isReady = standing({ ...situationOf(model, gate, now[1]), leases: [] }, now[1]).reason === 'due';
      if (isLanded || (isReady && lease[1] <= now[0])) model.land(asset);
      else if (flight[asset]?.token === nonce) model.land(asset);
    }
  }
  const dueOf = ({ live, due }: Waiting) => `${live ? 'live' : 'backfill'} ${due}`;
  const expected = moments.map((moment) => taken(situationOf(model, gate, moment), moment, most).map(dueOf));
  const actual = answer.taken.map(({ platformId: asset, notificationId: id, priority }) => {
    const owed = facts.owed.get(asset);
    assert.equal(owed?.id, id, 'what is taken is owed');
    assert.ok(!facts.holders.has(asset), 'two attempts of one asset');
    assert.equal(priority === 'live', owed.live);
    const moment = moments[0] as number;
    return dueOf(situationOf(model, gate, moment).waiting.find((one) => one.asset === asset) as Waiting);
  });
  const isRight = expected.some((list) => JSON.stringify(list) === JSON.stringify(actual));
  if (!isRight) assert.deepEqual(actual, expected[0], JSON.stringify(situationOf(model, gate, now[1])));
  for (const one of answer.taken) {
    const { platformId: asset, notificationId: id } = one;
    assert.deepEqual([one.token, one.generation, one.epoch], [nonce, facts.generation, facts.epoch]);
    facts.holders.set(asset, { token: nonce, id, lease: [now[0] + leaseMs, now[1] + leaseMs] });
    if (facts.state === 'failing') facts.probe = `${nonce} ${asset}`;
    if (!isLost) model.attempts.push(one);
  }
  goesOn(model, after, now, answer, before);
}

/** The answer says when something may be sent next, and where the whole client must wait, there is an alarm. */
function goesOn(model: Model, after: Endpoint, now: Range, answer: Takes, before: Endpoint): void {
  const { nextInMs, reason, wakeCatchUp } = answer;
  assert.equal(wakeCatchUp, before.catchUpUntil !== after.catchUpUntil, 'an alarm is told once');
  const next = now.map((moment) => {
    const { reason, at } = nextTime(situationOf(model, after, moment), moment);
    return { reason, inMs: at === undefined ? undefined : Math.max(at - moment, 0) };
  });
  const spread = now[1] - now[0] + 3;
  const isSame = next.some(
    (one) =>
      (one.inMs === undefined) === (nextInMs === undefined) &&
      Math.abs((one.inMs ?? 0) - (nextInMs ?? 0)) <= spread &&
      (one.reason === reason || (one.inMs ?? 0) <= spread),
  );
  assert.ok(isSame, `${JSON.stringify({ nextInMs, reason })} instead of ${JSON.stringify(next)}`);
  const isCovered = ['due', 'retry', 'rate', 'full', 'in_flight'].includes(reason);
  if (model.waiting().length === 0 || isCovered) return;
  assert.ok(after.catchUpUntil !== undefined, 'nobody is told when it goes on');
  if (nextInMs !== undefined)
    assert.ok(after.catchUpUntil <= now[1] + nextInMs + spread, 'the alarm is late');
}

type Events = (model: Model, client: DeliveryClient) => ArrivedEvent[];

const claim = (events: Events, name: string, { most, isLost }: { most: number; isLost: boolean }) =>
  step(`claim ${name}, take ${most}${isLost ? ', answer lost' : ''}`, async (model, client) => {
    const given = events(model, client);
    if (given.length === 0) return;
    const nonce = newNonce();
    const before = await endpointOf(client);
    const [answer, now] = await timed(client, () => client.claims(given, { nonce, most }));
    const expected = given.map((event) => arrives(model, event, now));
    for (const [i, expect] of expected.entries()) expect(answer.claims[i] as Claim);
    await takes(model, client, { nonce, most, isLost }, before, now, answer);
    if (isLost) model.lost.push({ nonce, verdicts: [] });
  });

/** Its claim is lost before Redis has it. */
const loseClaim = (events: Events, name: string) =>
  step(`lose claim ${name}`, async (model, client) => {
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
    const [answer, now] = await timed(client, () => client.claimAgain(event, claim));
    if (model.facts.notifications.has(id)) isFound(model, id)(answer);
    else if (known.claim >= claim && event.segments.every((one) => known.segments.has(one))) {
      assert.deepEqual(answer, { kind: 'not_needed', by: known.last });
      const notification = { asset, claim: 0, live: false, timed: false, failures: 0, by: known.last };
      model.facts.notifications.set(id, { ...notification, state: 'not_needed' });
    } else {
      becomesOwed(model, event, now)(answer);
      model.notification(id).timed = false;
    }
  });

interface Drawn {
  verdicts: [n: number, answer: AnswerName][];
  givenBack: number[];
  looks: number[];
  most: number;
  isLost: boolean;
}

/**
 * Settles, gives back, looks again and takes, several of each in one call: verdicts also a second time, after their lease, and for
 * a URL or an epoch that is no more.
 */
const turn = (drawn: Drawn) =>
  step(`turn ${JSON.stringify(drawn)}`, async (model, client) => {
    const { holders } = model.facts;
    const open = model.attempts.filter((one) => holders.get(one.platformId)?.token === one.token);
    const choose = (n: number) => pick(n % 5 === 0 || open.length === 0 ? model.attempts : open, n) ?? [];
    const verdicts = drawn.verdicts.flatMap(([n, name]) =>
      [choose(n)].flat().map((taken) => ({ taken, name })),
    );
    await turns(model, client, {
      ...{ nonce: newNonce(), verdicts, isRepeat: false, most: drawn.most, isLost: drawn.isLost },
      looks: drawn.looks.flatMap(choose),
      givenBack: drawn.givenBack.flatMap(choose),
    });
  });

/** Another process, or the same one later, finds what a call has done whose answer was lost. */
const repeat = (n: number, most: number) =>
  step(`repeat ${n}, take ${most}`, async (model, client) => {
    const call = pick(model.lost, n);
    if (call === undefined) return;
    model.lost.splice(model.lost.indexOf(call), 1);
    await turns(model, client, { ...call, isRepeat: true, most, isLost: false, looks: [], givenBack: [] });
  });

async function turns(
  model: Model,
  client: DeliveryClient,
  call: Call & { isRepeat: boolean; most: number; isLost: boolean; looks: Taken[]; givenBack: Taken[] },
): Promise<void> {
  const { nonce, verdicts, isRepeat, most, isLost, looks, givenBack } = call;
  const before = await endpointOf(client);
  const request = {
    ...{ nonce, isRepeat, most, looks },
    verdicts: verdicts.map(({ taken, name }) => client.verdict(taken, answers[name])),
    givenBack: givenBack.map((taken) => ({ taken, inMs: second })),
  };
  // As if Redis were full: a process then takes nothing.
  const name = most === 0 ? 'settle' : 'turn';
  const [turned, now] = await timed(client, () => client.turn(request, name));
  const after = await endpointOf(client);
  for (const [i, verdict] of verdicts.entries()) {
    const settled = turned.settled[i] as Settled;
    const { platformId, token } = verdict.taken;
    const isCounted = model.facts.holders.get(platformId)?.token === token;
    settles(model, client, verdict, settled, now);
    const { timed, failures } = model.facts.notifications.get(verdict.taken.notificationId) ?? {};
    const isOverdue = settled.outcome === 'retry' && isCounted && (!timed || (failures ?? 0) > 3);
    if (!isOverdue || settled.inMs === undefined || settled.inMs < second) continue;
    assert.ok((after.catchUpUntil ?? Infinity) <= now[1] + settled.inMs, 'nobody times its retry');
  }
  for (const [i, one] of looks.entries()) {
    assert.equal(turned.maySend[i], looksAgain(model, one, after, now), 'a second look');
  }
  for (const { platformId: asset, token } of givenBack) {
    if (model.facts.holders.get(asset)?.token === token)
      model.land(asset, [now[0] + second, now[1] + second]);
  }
  if (isRepeat) {
    const held = [...model.facts.holders].filter(([, { token }]) => token === nonce);
    const found = held.filter(([platformId]) =>
      looksAgain(model, { platformId, token: nonce, generation: model.facts.generation }, after, now),
    );
    if (found.length > 0) {
      const ids = turned.taken.map(({ notificationId }) => notificationId);
      assert.deepEqual(ids.sort(), found.map(([, { id }]) => id).sort(), 'it finds what it had taken');
      model.attempts.push(...turned.taken);
      return goesOn(model, await endpointOf(client), now, turned, before);
    }
  }
  await takes(model, client, { nonce, most, isLost }, before, now, turned);
  if (isLost) model.lost.push({ nonce, verdicts });
}

const plan = step('plan', async (model, client) => {
  const { retentionMs } = client.settings;
  const [answer, now] = await timed(client, () => client.plan());
  for (const [asset, { lease }] of [...model.facts.holders]) if (lease[1] <= now[0]) model.land(asset);
  for (const [, { id, since }] of model.waiting()) {
    if (now[0] - since[1] >= retentionMs) model.end(id, 'failed');
  }
  assert.equal(answer.owed, model.waiting().length + model.facts.holders.size);
  const e = await endpointOf(client);
  if (answer.owed === 0) return assert.equal(e.catchUpUntil, undefined);
  const sinces = model.waiting().map(([, { since }]) => since[1]);
  const leases = [...model.facts.holders.values()].map(({ lease }) => lease[1]);
  const next = nextTime(situationOf(model, e, now[1]), now[1]).at;
  const at = Math.min(next ?? Math.min(...sinces, now[1]) + retentionMs, ...leases);
  assert.ok(
    Math.abs(answer.inMs - Math.max(at - now[1], 0)) <= now[1] - now[0] + 5,
    JSON.stringify([answer, at - now[1]]),
  );
  assert.ok(Math.abs((e.catchUpUntil as number) - (now[0] + answer.inMs)) <= now[1] - now[0] + 5);
});

/** Page by page: what is owed, each once, and of an asset every notification that was ever made. */
const lists = step('lists', async (model, client) => {
  const listed = async (filter: Omit<NotificationFilter, 'limit'>): Promise<string[]> => {
    const ids: string[] = [];
    let behind: Place | undefined;
    do {
      const more = behind === undefined ? {} : { behind };
      const page = await listNotifications(client.db, client.clientToken, { ...filter, ...more, limit: 2 });
      assert.ok(page.notifications.length <= 2);
      ids.push(...page.notifications.map((one) => one.notificationId));
      behind = page.next;
    } while (behind !== undefined);
    return ids;
  };
  const owed = [...model.facts.owed.values()].map(({ id }) => id);
  assert.deepEqual((await listed({ state: 'waiting' })).sort(), owed.sort(), 'what waits');
  for (const platformId of assets) {
    const made = [...model.facts.notifications].filter(([, { asset }]) => asset === platformId);
    assert.deepEqual((await listed({ platformId })).sort(), made.map(([id]) => id).sort());
  }
});

const operator: Step[] = [
  step('pause', async (model, { db, clientToken }) => {
    assert.equal(await setPaused(db, clientToken, true), !model.facts.paused);
    model.facts.paused = true;
  }),
  step('unpause', async (model, { db, clientToken }) => {
    assert.equal(await setPaused(db, clientToken, false), model.facts.paused);
    model.facts.paused = false;
  }),
  step('resume', async (model, { db, clientToken }) => {
    assert.equal(await resumeEndpoint(db, clientToken), model.facts.state !== 'active');
    if (model.facts.state === 'suspended') model.enter('failing');
  }),
  step('reset', async (model, { db, clientToken }) => {
    const answer = await resetRegistration(db, clientToken);
    const { registered, holders } = model.facts;
    assert.equal(answer?.owed, registered ? model.waiting().length + holders.size : undefined);
    if (registered) model.newUrl();
    model.facts.registered = false;
  }),
  step('register', async (model, client) => {
    if (model.facts.registered) return;
    await client.register();
    model.facts.registered = true;
    model.newUrl();
    model.pullForward(client.now());
  }),
  step('change', async (model, client) => {
    const url = 'https://elsewhere.example/';
    const answer = await changeRegistration(client.db, client.clientToken, url);
    assert.equal(answer !== undefined, model.facts.registered);
    if (!model.facts.registered) return;
    model.newUrl();
    model.pullForward(client.now());
  }),
];

/** Steps that let deliveries go on are more frequent than steps that stop them. */
const putBack = operator.filter((one) => ['unpause', 'register', 'resume'].includes(String(one)));

const cancel = (n: number) =>
  step(`cancel ${n}`, async (model, client) => {
    const [id, notification] = pick([...model.facts.notifications], n) ?? [];
    if (id === undefined) return;
    const waits = notification?.state === 'waiting';
    assert.equal(await cancelNotification(client.db, client.clientToken, id), waits);
    if (waits) model.end(id, 'cancelled');
  });

function reopen(model: Model, id: string): Notification {
  const notification = model.notification(id);
  Object.assign(notification, { state: 'waiting', by: undefined, timed: false, failures: 0 });
  return notification;
}

const sendAgain = (n: number) =>
  step(`redeliver ${n}`, async (model, client) => {
    const [id, { asset } = { asset: '' }] = pick([...model.facts.notifications], n) ?? [];
    if (id === undefined) return;
    const [dueId, now] = await timed(client, () => redeliver(client.db, client.clientToken, id));
    if (!model.facts.owed.has(asset)) {
      reopen(model, id);
      owe(model, asset, id, true, now);
    }
    const owed = model.facts.owed.get(asset) as OwedAsset;
    assert.equal(dueId, owed.id);
    if (model.facts.holders.has(asset)) return;
    const others = model.waiting().filter(([other, { live }]) => live && other !== asset);
    owed.live = true;
    // Before all others.
    owed.due = [0, Math.min(now[1], ...others.map(([, { due }]) => due[1])) - 1];
  });

const recover = step('recover', async (model, client) => {
  const range = { since: 0, until: Number.MAX_SAFE_INTEGER, dryRun: false };
  const { notifications, owed } = model.facts;
  const failed = [...notifications].filter(
    ([id, { state, asset }]) => state === 'failed' && !owed.has(asset) && model.knownOf(asset).last === id,
  );
  const [{ count }, now] = await timed(client, () => recoverFailed(client.db, client.clientToken, range));
  assert.equal(count, failed.length);
  for (const [id, { asset, live }] of failed) {
    reopen(model, id);
    owe(model, asset, id, live, now);
  }
});

const replay = step('replay', async (model, client) => {
  const { notifications, owed } = model.facts;
  const told = [...notifications.values()].filter(({ state }) => state === 'delivered');
  const due = new Set(told.map(({ asset }) => asset).filter((asset) => !owed.has(asset)));
  const range = { since: 0, until: Number.MAX_SAFE_INTEGER };
  let now: Range = [0, 0];
  for (const dryRun of [true, false]) {
    const [{ count }, at] = await timed(client, () =>
      replayDelivered(client.db, client.clientToken, { ...range, dryRun }),
    );
    assert.equal(count, due.size);
    now = at;
  }
  for (const asset of due) {
    const { last: id } = model.knownOf(asset);
    reopen(model, id).live = false;
    owe(model, asset, id, false, now);
  }
});

const pass = (ms: number) =>
  step(`pass ${ms} ms`, async (_model, client) => {
    client.pass(ms);
  });

const save = step('save', async (model, client) => {
  model.saved ??= { facts: structuredClone(model.facts), restore: await snapshot(client) };
});
/** Redis loses what came since; processes and workflows do not. */
const lose = step('lose', async (model) => {
  if (model.saved === undefined) return;
  await model.saved.restore();
  model.facts = model.saved.facts;
  model.saved = undefined;
  model.untold.clear();
  model.place = undefined;
});

/** Every claimed notification has ended or is owed, and every key of what is owed says the same. */
async function holds(model: Model, client: DeliveryClient): Promise<void> {
  const { facts } = model;
  const keys = client.db.client(client.clientToken);
  const { redis } = client.db;
  const [{ waiting, flight }, since, live, backfill, e] = await Promise.all([
    whatIsOwed(client),
    redis.zrange(keys.owedSince, 0, '-1', 'WITHSCORES'),
    redis.zrange(keys.dueLive, 0, '-1', 'WITHSCORES'),
    redis.zrange(keys.dueBackfill, 0, '-1', 'WITHSCORES'),
    client.endpoint(),
  ]);
  const health = [e.state ?? 'active', Number(e.epoch), Number(e.generation), Number(e.failures ?? 0)];
  assert.deepEqual(health, [facts.state, facts.epoch, facts.generation, facts.failures], 'its health');
  for (const [asset, entry] of Object.entries(flight)) {
    const holder = facts.holders.get(asset);
    assert.deepEqual([entry.token, entry.id], [holder?.token, holder?.id], `${asset} is in flight`);
    const owed = facts.owed.get(asset);
    assert.equal(entry.newer, owed === undefined ? '!' : owed.id === entry.id ? undefined : owed.id);
    holder && narrows(holder.lease, entry.leaseEndsAt, 'its lease');
    if (owed === undefined) continue;
    assert.equal(entry.lane, owed.live ? 'L' : 'B');
    narrows(owed.since, entry.since, 'owed since');
  }
  const waits = model.waiting();
  assert.deepEqual(Object.keys(flight).sort(), [...facts.holders.keys()].sort(), 'in flight');
  assert.deepEqual(waiting, Object.fromEntries(waits.map(([asset, { id }]) => [asset, id])), 'what waits');
  const [sinces, ...lanes] = [since, live, backfill].map(timesOf) as [Times, Times, Times];
  assert.equal(sinces.size, waits.length);
  assert.equal(lanes[0].size + lanes[1].size, waits.length, 'each due in one lane');
  for (const [asset, owed] of waits) {
    narrows(owed.since, sinces.get(asset), 'its "owed since"');
    narrows(owed.due, lanes[owed.live ? 0 : 1].get(asset), `when ${asset} is due`);
  }
  await recordsAgree(model, client);
  await standingsAgree(model, client);
  await readsOn(model, client);
}

type Times = Map<string, number>;
const timesOf = (flat: string[]): Times =>
  new Map(flat.flatMap((asset, i) => (i % 2 ? [] : [[asset, Number(flat[i + 1])]])));

/** Once it was read, a time is known exactly. */
function narrows(range: Range, at: number | undefined, what: string): void {
  assert.ok(at !== undefined && at >= range[0] - 1 && at <= range[1] + 1, `${what}: ${at} in ${range}`);
  range[0] = range[1] = at;
}

async function recordsAgree(model: Model, client: DeliveryClient): Promise<void> {
  const keys = client.db.client(client.clientToken);
  const all = [...model.facts.notifications];
  const records = await Promise.all(
    all.map(([id]) => client.db.redis.hmget(keys.notification(id), 'state', 'by', 'priority', 'failures')),
  );
  for (const [i, [id, { state, asset, by, live, claim, failures }]] of all.entries()) {
    const [isState, isBy, priority, failed] = records[i] as (string | null)[];
    assert.equal(isState ?? 'waiting', state, `${id} of ${asset}`);
    assert.equal(state === 'waiting', model.facts.owed.get(asset)?.id === id, 'owed or ended');
    if (claim > 0) assert.equal(priority !== 'backfill', live, 'live or backfill');
    if (claim > 0) assert.equal(Number(failed ?? 0), failures);
    assert.equal(isBy ?? undefined, by);
    if (by === undefined) continue;
    const other = model.facts.notifications.get(by);
    assert.equal(other?.asset, asset, 'what took its place is there');
  }
}

/** Workflows, people and the sweep are told the same, and it is what take does. */
async function standingsAgree(model: Model, client: DeliveryClient): Promise<void> {
  const e = await endpointOf(client);
  const isLike = (
    said: { reason?: string | undefined; at?: number | undefined },
    now: Range,
    why: (now: number) => Why,
  ) => {
    const spread = now[1] - now[0] + 3;
    const expected = now.map(why);
    const isRight = expected.some(
      ({ reason, at }) => reason === said.reason && Math.abs((at ?? 0) - (said.at ?? 0)) <= spread,
    );
    assert.ok(isRight, `${JSON.stringify(said)} instead of ${JSON.stringify(expected)}`);
  };
  for (const [platformId, owed] of model.facts.owed) {
    const claim = model.notification(owed.id).claim;
    const asked = { platformId, notificationId: owed.id, claim };
    const [found, now] = await timed(client, () => client.look(asked));
    assert.ok(found.kind === 'waiting', JSON.stringify(found));
    const lease = model.facts.holders.get(platformId)?.lease[1];
    const why = (moment: number): Why => {
      const { live, due } = owed;
      const situation = situationOf(model, e, moment);
      if (lease !== undefined) return { reason: 'in_flight', at: Math.max(lease, moment) };
      return reasonOf(situation, { asset: platformId, live, due: due[1] }, moment);
    };
    isLike(
      { reason: found.reason, at: found.inMs === undefined ? undefined : now[1] + found.inMs },
      now,
      why,
    );
  }
  const [{ reason, at, owed, inFlight }, now] = await timed(client, () =>
    readOverview(client.db, client.clientToken, client.settings),
  );
  assert.deepEqual(
    [owed, inFlight],
    [model.waiting().length + model.facts.holders.size, model.facts.holders.size],
  );
  // What is due has been due since some time in the past.
  const said = reason === 'due' && at !== undefined ? Math.max(at, now[1]) : at;
  isLike({ reason, at: said }, now, (moment) => nextTime(situationOf(model, e, moment), moment));
  const [id] = pick([...model.facts.notifications], now[0]) ?? [];
  const accepted = pick(model.accepted, Math.floor(now[0]));
  if (accepted !== undefined) await lossIsFound(model, client, accepted);
  if (id === undefined) return;
  const record = await getNotification(client.db, client.clientToken, id);
  assert.equal(record?.state, model.notification(id).state);
}

/** The workflow of an event finds out that Redis has lost its claim, and only then. */
async function lossIsFound(
  model: Model,
  client: DeliveryClient,
  { event: { platformId, notificationId: id }, claim }: Model['accepted'][0],
): Promise<void> {
  const found: Standing = await client.look({ platformId, notificationId: id, claim });
  const known = model.knownOf(platformId);
  const isOwed = model.facts.owed.get(platformId)?.id === id;
  const isLost = known.claim < claim || (known.claim === claim && known.last !== id);
  assert.equal(found.kind, isOwed ? 'waiting' : isLost ? 'lost' : 'ended');
  if (found.kind === 'ended') assert.equal(found.state, model.facts.notifications.get(id)?.state);
}

/** Continues where the last step ended: no update is skipped, whenever its event was accepted and claimed. */
async function readsOn(model: Model, client: DeliveryClient): Promise<void> {
  for (let found = 1; found > 0; ) {
    const options = { limit: 2, ...(model.place && { after: model.place }) };
    const page = await readUpdates(client.db, client.clientToken, options);
    assert.ok(page, 'the place is known');
    model.place = page.end;
    found = page.updates.length;
    for (const { platformId } of page.updates) model.untold.delete(platformId);
  }
  assert.deepEqual([...model.untold], [], 'updates that were skipped');
}

/** Once nothing is in its way any more, all that is owed is delivered: nothing was forgotten. */
async function drains(model: Model, client: DeliveryClient): Promise<void> {
  await setPaused(client.db, client.clientToken, false);
  if (!model.facts.registered) await client.register();
  const mayFail = { ...client.settings, retentionMs: Number.MAX_SAFE_INTEGER };
  client.settings = mayFail;
  for (let round = 0; round < 60; round++) {
    await resumeEndpoint(client.db, client.clientToken);
    const { owed, inMs } = await client.plan();
    if (owed === 0) return;
    const taken = await client.take();
    await client.turn({ verdicts: taken.map((one) => client.verdict(one, { ok: true })) });
    client.pass(Math.max(Math.min(inMs, day), second));
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
const answer = fc.constantFrom<AnswerName>(
  ...(['ok', 'ok', 'ok', 'ok', 'fail', 'fail', 'fail', 'fail', 'gone', 'slowDown'] as const),
);

let arrivals = 0;
/** Makes an event that one of three processes with different clocks accepted. */
const arrived = (client: DeliveryClient, given: Parameters<DeliveryClient['event']>[0]): ArrivedEvent =>
  client.event({ ...given, acceptedAt: client.now() - (arrivals++ % 3) * 40 });

type Named = [Events, string];
const several = fc
  .array(anyEvent, { minLength: 1, maxLength: 4 })
  .map((given): Named => [(_, client) => given.map((one) => arrived(client, one)), JSON.stringify(given)]);
/** An event sent again, or another one that says the same. */
const repeated = fc.tuple(anyNumber, fc.boolean()).map(([n, isSame]): Named => {
  const events: Events = (model, client) => {
    const event = pick(model.accepted.slice(-5), n)?.event;
    if (event === undefined) return [];
    const { platformId, segments, priority } = event;
    return [isSame ? event : client.event({ platformId, segments, priority, notify: n % 3 !== 0 })];
  };
  return [events, `${isSame ? 'again' : 'like'} ${n}`];
});
const rarely = fc.constantFrom(false, false, false, true);
const most = fc.constantFrom(0, 1, 2, 64, 64);
const claims = fc
  .tuple(fc.oneof(several, several, repeated), fc.record({ most, isLost: rarely }))
  .map(([[events, name], how]) => claim(events, name, how));
const anyTurn = fc
  .record<Drawn>({
    verdicts: fc.array(fc.tuple(anyNumber, answer), { maxLength: 3 }),
    givenBack: fc.array(anyNumber, { maxLength: 1 }),
    looks: fc.array(anyNumber, { maxLength: 1 }),
    most,
    isLost: rarely,
  })
  .map(turn);
const anyStep: fc.Arbitrary<Step>[] = [
  // Frequent steps are listed more than once.
  ...[claims, claims, claims, anyTurn, anyTurn, anyTurn, anyTurn, anyTurn],
  several.map(([events, name]) => loseClaim(events, name)),
  anyNumber.map(claimAgain),
  fc.tuple(anyNumber, most).map(([n, most]) => repeat(n, most)),
  fc.oneof(anyNumber.map(cancel), anyNumber.map(sendAgain), anyNumber.map(sendAgain)),
  fc.constantFrom(plan, plan, recover, replay, lists, save, lose),
  fc.constantFrom(...operator, ...putBack),
  fc.constantFrom(...[second, second, 7 * second, leaseMs, minute, minute, 5 * hour, 2 * day]).map(pass),
];
const anyLimits = fc.record<Limits>({
  maxInFlight: fc.constantFrom(1, 2, 4, 5),
  perSecond: fc.constantFrom(0, 0, 0, 0.5),
  drainPerSecond: fc.constantFrom(200, 0.5),
});
const numRuns = Number(process.env.MODEL_RUNS ?? 80);

/** Runs the steps, and checks that in the end everything owed is delivered. */
async function keepsPromises(steps: Iterable<Step>, failingAfter: number, limits: Limits): Promise<void> {
  const { maxInFlight, drainPerSecond, perSecond } = limits;
  const client = await newDeliveryClient({
    ...{ failingAfter, maxInFlight, drainPerSecond, probeScheduleMs: [second, minute] },
  });
  if (perSecond > 0) await setClient(client.db, client.clientToken, { maxPerSecond: perSecond });
  const model = new Model(limits);
  await fc.asyncModelRun(() => ({ model, real: client }), steps);
  await lists.run(model, client);
  await drains(model, client);
  client.db.redis.disconnect();
}

describe('known and owed, in every interleaving', () => {
  after(closeDeliveryClients);

  it('agree with the model and keep its promises', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.commands(anyStep, { maxCommands: 100, size: 'max' }),
        fc.constantFrom(1, 2, 5),
        anyLimits,
        keepsPromises,
      ),
      {
        numRuns,
        includeErrorInReport: true,
        endOnFailure: process.env.MODEL_SHRINK === undefined,
        interruptAfterTimeLimit: process.env.MODEL_RUNS ? 500_000 : 40_000,
      },
    );
  }).timeout(600_000);

  it('sends an asset whose process died before what arrives with its next event', async () => {
    const event = (platformId: string, segment: string) =>
      ({ platformId, segments: [segment], priority: 'live', notify: true }) as const;
    const claims = (most: number, ...given: ReturnType<typeof event>[]) =>
      claim((_, client) => given.map((one) => client.event(one)), '', { most, isLost: most === 1 });
    const limits = { maxInFlight: 5, perSecond: 0, drainPerSecond: 200 };
    const steps = [
      claims(1, event('a', '1')),
      pass(leaseMs + second),
      claims(64, event('c', '1'), event('a', '2')),
    ];
    await keepsPromises(steps, 5, limits);
  });
});
