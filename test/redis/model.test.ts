/**
 * The scripts beside the model, in any interleaving: after every step both say the same, and what is owed is delivered in the
 * end. The scripts run with a clock that only the test moves.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { assetSlot } from '../../src/ids.js';
import { witnessClocks } from '../../src/redis/connection/clocks.js';
import { toPairs } from '../../src/redis/connection/db.js';
import { library, runScript } from '../../src/redis/connection/library.js';
import { forgetAsset } from '../../src/redis/notifications/decisions.js';
import {
  listNotifications,
  type NotificationFilter,
  type Position,
} from '../../src/redis/notifications/notificationPages.js';
import {
  cancelNotification,
  dismissFailed,
  recoverFailed,
  redeliver,
  trimFailed,
} from '../../src/redis/notifications/redeliver.js';
import { beginReplay, countSpan } from '../../src/redis/notifications/replay.js';
import { readUpdates } from '../../src/redis/notifications/updates.js';
import type { ArrivedEvent } from '../../src/redis/owed/claim.js';
import { setAlarm } from '../../src/redis/owed/owedClients.js';
import { readStandings } from '../../src/redis/owed/standing.js';
import { newNonce, type Settled, type Taken, type Takes, type Verdict } from '../../src/redis/owed/turn.js';
import { setClient } from '../../src/redis/records/clients.js';
import { clearDeletedClient, deleteClient, removeNoticesUrl } from '../../src/redis/records/deletion.js';
import { getEndpoint, resumeEndpoint, setHeld, setPaused } from '../../src/redis/records/endpoint.js';
import {
  changeRegistration,
  markAnswered,
  resetRegistration,
} from '../../src/redis/records/registrations.js';
import { startOwnRedis } from '../ownRedis.js';
import { openForSuite } from '../servers.js';
import { keptLog } from '../service.js';
import {
  type DeliveryClient,
  day,
  hour,
  leaseMs,
  minute,
  newDeliveryClient,
  second,
  snapshot,
} from './deliveryClient.js';
import {
  type AnswerName,
  answers,
  type Judged,
  type Limits,
  listedAtMost,
  longestLeaseMs,
  Model,
  type Process,
  pulledAtOnce,
} from './model.js';

const assets = ['a', 'b', 'c', 'd', 'e'];
const startedAt = Math.floor(Date.now() / second) * second;
const frozen = library
  .replace("redis.call('TIME')", `{${startedAt / second}, 0}`)
  .replace('PULLED_AT_ONCE = 200', `PULLED_AT_ONCE = ${pulledAtOnce}`)
  .replace('listed_at_most = 10000', `listed_at_most = ${listedAtMost}`);

type Step = fc.AsyncCommand<Model, undefined>;

/** Makes a step that is always possible, 1 ms after the one before, and checks everything after it. */
function step(name: string, run: (model: Model, client: DeliveryClient) => Promise<unknown>): Step {
  return {
    check: () => true,
    async run(model) {
      model.client.pass(1);
      model.steps++;
      await run(model, model.client);
      await agrees(model);
    },
    toString: () => name,
  };
}

function pick<T>(from: readonly T[], n: number): T | undefined {
  return from.length === 0 ? undefined : from[n % from.length];
}

const inMs = (model: Model, at: number | undefined): number | undefined =>
  at === undefined ? undefined : Math.max(Math.ceil(at - model.now), 0);

/** Checks what a call has taken; processes then send it, unless the answer was lost. */
async function takes(
  model: Model,
  { nonce, most, isLost }: { nonce: string; most: number; isLost: boolean },
  answer: Takes,
  arriveApart = false,
): Promise<void> {
  model.take(most, nonce, answer.taken, arriveApart);
  if (!isLost) model.attempts.push(...answer.taken);
  await goesOn(model, answer, most > 0);
}

/** The answer says when something may be sent next, and where the whole client must wait, there is an alarm. */
async function goesOn(model: Model, { nextInMs, wakeCatchUp }: Takes, sends: boolean): Promise<void> {
  const next = model.nextTime();
  assert.equal(nextInMs, inMs(model, next.at));
  const { catch_up_until: until } = await model.client.endpoint();
  // A plan by a clock that was set back since is unknown.
  if (model.plannedAt <= model.now)
    assert.equal(wakeCatchUp, until !== model.catchUpUntil, 'an alarm is told once');
  const isCovered = ['due', 'retry', 'rate', 'full', 'in_flight'].includes(next.reason);
  // A caller that sends is there at the end of a quiet period that ends within a lease.
  const isSoon = next.reason === 'quiet' && (next.at ?? 0) <= model.now + leaseMs;
  if (isSoon && sends) return;
  const latest = (next.at ?? Infinity) + (isSoon ? leaseMs : 0);
  if (!isCovered) assert.ok(Number(until) <= latest, 'the alarm is late');
}

type Events = (model: Model) => ArrivedEvent[];

const claim = (events: Events, name: string, { most, isLost }: { most: number; isLost: boolean }) =>
  step(`claim ${name}, take ${most}${isLost ? ', answer lost' : ''}`, async (model) => {
    const given = events(model);
    if (given.length === 0) return;
    const nonce = newNonce();
    await claimsTogether(model, given, { nonce, most, isLost });
    if (isLost) model.lost.push({ nonce, verdicts: [] });
  });

async function claimsTogether(
  model: Model,
  events: readonly ArrivedEvent[],
  how: Parameters<typeof takes>[1],
): Promise<Takes> {
  const answer = await model.client.claims(events, how);
  model.setRight();
  const arriveApart = model.arriveApart(events);
  const expected = events.map((event) => model.claim(event));
  assert.deepEqual(answer.claims, expected);
  await takes(model, how, answer, arriveApart);
  model.trimList();
  return answer;
}

/** Its claim is lost before Redis has it. */
const loseClaim = (events: Events, name: string) =>
  step(`lose claim ${name}`, async (model) => {
    for (const event of events(model)) {
      const known = model.knownOf(event.platformId);
      const isNew = event.segments.some((one) => !known.segments.has(one));
      if (event.notify && isNew)
        model.accepted.push({ event, claim: known.claim + 1, renewed: model.renew(event) });
    }
  });

const claimAgain = (n: number) =>
  step(`claim again ${n}`, async (model, client) => {
    const accepted = pick(model.accepted.slice(-5), n);
    if (accepted === undefined) return;
    const answer = await client.claimAgain({ ...accepted.event, ...accepted.renewed }, accepted.claim);
    model.setRight();
    assert.deepEqual(answer, model.claimAgain(accepted));
    model.pull();
    model.trimList();
  });

interface Drawn {
  verdicts: [n: number, answer: AnswerName][];
  givenBack: number[];
  most: number;
  isLost: boolean;
}

/**
 * Settles, gives back and takes, several of each in one call: verdicts also a second time, after their lease, and for a URL or an
 * epoch that is no more.
 */
const turn = (drawn: Drawn) =>
  step(`turn ${JSON.stringify(drawn)}`, async (model) => {
    const open = model.attempts.filter((one) => model.holds(one));
    const choose = (n: number) =>
      [pick(n % 5 === 0 || open.length === 0 ? model.attempts : open, n) ?? []].flat();
    await turns(model, {
      nonce: newNonce(),
      lost: [],
      most: drawn.most,
      isLost: drawn.isLost,
      verdicts: drawn.verdicts.flatMap(([n, name]) => choose(n).map((taken) => ({ taken, name }))),
      givenBack: drawn.givenBack.flatMap(choose).map((taken, i) => ({ taken, inMs: i * second })),
    });
  });

/** Another process, or the same one later, repeats a call whose answer was lost. */
const repeat = (n: number, most: number) =>
  step(`repeat ${n}, take ${most}`, async (model) => {
    const call = pick(model.lost, n);
    if (call === undefined) return;
    model.lost.splice(model.lost.indexOf(call), 1);
    const again = { verdicts: call.verdicts, lost: [call.nonce], givenBack: [] };
    await turns(model, { ...again, nonce: newNonce(), most, isLost: false });
  });

interface Call {
  nonce: string;
  verdicts: Judged[];
  lost: readonly string[];
  most: number;
  isLost: boolean;
  givenBack: readonly { taken: Taken; inMs: number }[];
}

async function turns(model: Model, call: Call): Promise<Takes> {
  const { nonce, verdicts, lost, most, givenBack } = call;
  const { client } = model;
  const request = {
    nonce,
    lost,
    most,
    verdicts: verdicts.map(({ taken, name }) => client.verdict(taken, answers[name])),
    givenBack,
  };
  const turned = await client.turn(request);
  model.setRight();
  const { probe_at: probeAt, catch_up_until: until, not_before: notBefore = 0 } = await client.endpoint();
  for (const [i, verdict] of verdicts.entries()) {
    const settled = turned.settled[i] as Settled;
    const isCounted = model.holds(verdict.taken);
    const waits = model.waiting().length > 0;
    assert.equal(settled.result, model.settle(verdict, settled));
    const { timed, failures = 0 } = model.facts.notifications.get(verdict.taken.notificationId) ?? {};
    const { result, inMs = 0 } = settled;
    if (result === 'retry' && isCounted && inMs > 0 && (!timed || failures > 3))
      assert.ok(Number(until) <= Math.max(model.now + inMs, Number(notBefore)), 'nobody times its retry');
    if (settled.change?.to === 'active' && waits) assert.ok(Number(until) <= model.now, 'nobody drains');
  }
  model.readProbe(Number(probeAt));
  for (const { taken, inMs } of givenBack)
    if (model.holds(taken)) {
      model.waitAgain(taken.platformId, inMs === 0 ? undefined : model.now + Math.ceil(inMs));
    }
  if (lost.length > 0) model.endLeases(lost);
  await takes(model, call, turned);
  if (verdicts.length > 0) model.trimList();
  if (call.isLost) model.lost.push({ nonce, verdicts });
  return turned;
}

/** `unanswered`: Redis does not run the call; `late`: only after the process has given it up; `full`: Redis refuses claims. */
type Fate = 'answered' | 'lost' | 'late' | 'unanswered' | 'full';

/** A process makes the next call of its hand. */
const acts = (n: number, room: number, fate: Fate) =>
  step(`process ${n} calls, ${fate}`, (model) => act(model, model.processes[n] as Process, room, fate));

async function act(model: Model, process: Process, room: number, fate: Fate): Promise<void> {
  const { hand, answered, posts } = process;
  const call = hand.next(model.elapsed, room);
  if (call === undefined) return;
  const run = async (): Promise<Takes> => {
    if (call.kind === 'claim') return await claimsTogether(model, call.events, { ...call, isLost: true });
    const verdicts = call.verdicts.map((verdict) => ({
      taken: verdict.taken,
      name: process.names.get(verdict) ?? 'ok',
    }));
    const turned = await turns(model, { ...call, verdicts, isLost: false });
    model.attempts = model.attempts.filter((one) => !turned.taken.includes(one));
    return turned;
  };
  if (fate === 'late') model.late.push(run);
  const isRun = fate === 'answered' || fate === 'lost' || (fate === 'full' && call.kind === 'turn');
  const takes = isRun ? await run() : undefined;
  if (takes === undefined || fate === 'lost') {
    const { refused, isGivenUp } = hand.failed(call, false, model.elapsed);
    process.waiting -= refused.length;
    assert.ok(!isGivenUp || model.elapsed > process.closedAt + 10 * second, 'it gives up too early');
    if (isGivenUp && call.kind === 'turn') settled(process, call.verdicts);
    return;
  }
  if (call.kind === 'claim') process.waiting -= call.events.length;
  else settled(process, call.verdicts);
  for (const one of hand.answered(call, takes, model.elapsed)) {
    assert.ok(!answered.has(one.notificationId), 'it sends again what it knows to be answered');
    posts.push(one);
  }
}

function settled({ answered }: Process, verdicts: readonly Verdict[]): void {
  for (const { taken } of verdicts) answered.delete(taken.notificationId);
}

/** An attempt of a process ends: answered, without a connection, or by a failure of its own. */
const ends = (n: number, which: number, how: AnswerName | 'crowded' | 'own') =>
  step(`process ${n} ends ${which}: ${how}`, async (model, client) => {
    const process = model.processes[n] as Process;
    const taken = pick(process.posts, which);
    if (taken === undefined) return;
    process.posts.splice(process.posts.indexOf(taken), 1);
    if (how === 'crowded' || how === 'own') process.hand.attempted(taken, how, model.elapsed);
    else {
      const verdict = client.verdict(taken, answers[how]);
      process.names.set(verdict, how);
      if (verdict.ok && !process.setBack.includes(taken)) process.answered.add(taken.notificationId);
      process.hand.attempted(taken, verdict, model.elapsed);
    }
  });

const arrives = (n: number, events: Events, name: string) =>
  step(`process ${n} gets ${name}`, async (model) => {
    const process = model.processes[n] as Process;
    for (const event of events(model)) {
      process.hand.arrive(event);
      process.waiting++;
    }
  });

const pokes = (n: number) => step(`poke ${n}`, async ({ processes }) => processes[n]?.hand.poke());
const closes = (n: number) =>
  step(`process ${n} closes`, async ({ processes, elapsed }) => {
    const process = processes[n] as Process;
    process.closedAt = Math.min(process.closedAt, elapsed);
    process.hand.close(elapsed);
  });
const runsLate = step('run late', async ({ late }) => late.shift()?.());

/** Redis answers again: each process settles all that it holds, answers every event, and becomes quiet. */
async function becomeQuiet(model: Model): Promise<void> {
  while (model.late.length > 0) await runsLate.run(model, undefined);
  for (const [n, process] of model.processes.entries()) {
    const { hand } = process;
    for (let i = 0; !hand.isIdle(model.elapsed); i++) {
      assert.ok(i < 300, 'it finds no rest');
      while (process.posts.length > 0) await ends(n, 0, 'ok').run(model, undefined);
      await acts(n, 100, 'answered').run(model, undefined);
      const waitMs = hand.wakesAt(model.elapsed) - model.elapsed;
      if (waitMs > 0 && waitMs < Infinity) model.client.pass(Math.ceil(waitMs));
    }
    assert.deepEqual([process.waiting, [...process.answered]], [0, []], 'no event and no verdict is lost');
  }
}

const plan = (leastMs: number) =>
  step(`plan ${leastMs}`, async (model, client) => {
    const planned = await client.plan(leastMs);
    assert.deepEqual(planned, model.plan(leastMs));
    const { catch_up_until: until } = await client.endpoint();
    if (planned.owed === 0) return assert.equal(until, undefined);
    assert.equal(Math.max(Number(until), model.now), model.now + planned.inMs);
    const { catchUpLateMs } = await getEndpoint(client.db, client.clientToken);
    assert.ok(catchUpLateMs <= 0, 'a catch-up that has just planned is not late');
  });

/** Sets the alarm, as activities, commands and the sweep do: a catch-up that wakes by then is left alone, a stuck one is replaced. */
const alarm = (ms: number) =>
  step(`alarm in ${ms} ms`, async (model, client) => {
    const before = await client.endpoint();
    const set = await setAlarm(client.db, client.clientToken, ms);
    const { catch_up_until: until, planned_at: plannedAt = 0, woken_at: wokenAt } = await client.endpoint();
    const isKnown = Number(before.planned_at ?? 0) <= model.now;
    const planned = Number((isKnown && before.catch_up_until) || Number.NEGATIVE_INFINITY);
    const lastPlan = isKnown ? Number(plannedAt) : 0;
    const isCovered = planned > model.now - 8 * second && planned <= model.now + ms;
    const isStuck = Number(before.woken_at) > lastPlan && Number(before.woken_at) < model.now - 2 * minute;
    if (model.facts.owed.size + model.facts.holders.size === 0 || isCovered)
      return assert.equal(set, 'covered');
    assert.deepEqual([set, Number(until)], [isStuck ? 'replaced' : 'woken', model.now + ms]);
    assert.ok(Number(wokenAt) > lastPlan, 'since when it was woken');
  });

/** Page by page: what is owed, each once, and of an asset every notification that is kept. */
const lists = step('lists', async (model, client) => {
  const listed = async (filter: Omit<NotificationFilter, 'limit'>): Promise<string[]> => {
    const ids: string[] = [];
    let behind: Position | undefined;
    do {
      const page = await listNotifications(client.db, client.clientToken, { ...filter, behind, limit: 2 });
      assert.ok(page.notifications.length <= 2);
      ids.push(...page.notifications.map((one) => one.notificationId));
      behind = page.next;
    } while (behind !== undefined);
    return ids.sort();
  };
  const owed = [...model.facts.owed.values()].map(({ id }) => id);
  assert.deepEqual(await listed({ state: 'waiting' }), owed.sort(), 'what waits');
  const failed = model.failedYet().map(({ id }) => id);
  assert.deepEqual(await listed({ state: 'failed' }), failed.sort(), 'what failed');
  const { facts } = model;
  const kept = [...facts.notifications].filter(
    ([id, { asset, state }]) =>
      facts.listed.has(id) || state === 'waiting' || facts.failed.get(asset)?.id === id,
  );
  for (const platformId of assets) {
    const onList = kept.filter(([, { asset }]) => asset === platformId);
    assert.deepEqual(await listed({ platformId }), onList.map(([id]) => id).sort());
  }
  assert.deepEqual(await listed({}), kept.map(([id]) => id).sort(), 'all');
});

/** Begins or ends what stops every delivery to the client. */
const stopping = (name: string, fact: 'held' | 'paused', set: typeof setPaused, isOn: boolean): Step =>
  step(name, async ({ facts, now }, { db, clientToken }) => {
    assert.equal(await set(db, clientToken, isOn), facts[fact] !== isOn);
    if (facts[fact] && !isOn) facts.recoveredAt = now;
    facts[fact] = isOn;
  });

const changeUrl = step('change', async (model, { db, clientToken }) => {
  const answer = await changeRegistration(db, clientToken, 'https://elsewhere.example/');
  assert.equal(answer !== undefined, model.facts.registered);
  if (!model.facts.registered) return;
  model.newUrl();
  model.facts.stored = { url: 'https://elsewhere.example/', nonce: '', at: 0, isAnswered: true };
});

/** A publisher registers a new URL, or the present one again, since the first call has no answer. */
const register = (how: 'register' | 'again', isAnswered: boolean) =>
  step(isAnswered ? `${how}, answered` : how, async (model, { db, clientToken, now }) => {
    const { facts } = model;
    const { stored } = facts;
    const [url, nonce, takeOverAfterMs] = [`https://receiver.example/${newNonce()}`, newNonce(), 2500];
    const wanted = how === 'again' ? stored.url || url : url;
    const isOther = facts.registered && (stored.isAnswered || wanted !== stored.url);
    const mayRun = facts.registered && Math.abs(now() - stored.at) < takeOverAfterMs;
    const outcome = isOther ? 'taken' : mayRun ? 'pending' : 'stored';
    const args = [wanted, nonce, takeOverAfterMs, 'sealed', '0'];
    assert.equal(await runScript(db, 'register', clientToken, args), outcome);
    if (outcome === 'stored') {
      facts.stored = { url: wanted, nonce, at: now(), isAnswered: false };
      if (!facts.registered) model.newUrl();
      facts.registered = true;
    }
    if (!isAnswered) return;
    // The call before it, which was taken over, changes nothing.
    for (const one of [stored.nonce, nonce]) await markAnswered(db, clientToken, one);
    if (facts.stored.nonce === nonce || facts.stored.nonce === stored.nonce) facts.stored.isAnswered = true;
  });

const operator: Step[] = [
  changeUrl,
  stopping('hold', 'held', setHeld, true),
  stopping('end the hold', 'held', setHeld, false),
  stopping('pause', 'paused', setPaused, true),
  stopping('end the pause', 'paused', setPaused, false),
  step('resume', async (model, { db, clientToken }) => {
    const { facts } = model;
    assert.equal(await resumeEndpoint(db, clientToken), facts.state !== 'active');
    if (facts.state === 'suspended' && !facts.paused && !facts.held && facts.registered)
      assert.equal((await getEndpoint(db, clientToken))?.lastChange?.by, 'operator');
    model.resume();
  }),
  step('reset', async (model, { db, clientToken }) => {
    const { registered, holders } = model.facts;
    const answer = await resetRegistration(db, clientToken);
    assert.equal(answer?.owed, registered ? model.waiting().length + holders.size : undefined);
    if (registered) model.newUrl();
    model.facts.registered = false;
  }),
  step('remove', async (model, { db, clientToken }) => {
    await removeNoticesUrl(db, clientToken);
    model.remove();
  }),
  register('register', true),
];

/** Steps that let deliveries go on are more frequent than steps that stop them. */
const putBack = operator.filter((one) =>
  ['end the pause', 'end the hold', 'register, answered', 'resume'].includes(String(one)),
);

const cancel = (n: number) =>
  step(`cancel ${n}`, async (model, { db, clientToken }) => {
    const [id, notification] = pick([...model.facts.notifications], n) ?? [];
    if (id === undefined) return;
    const waits = notification?.state === 'waiting';
    assert.equal(await cancelNotification(db, clientToken, id), waits);
    if (waits) model.end(id, { state: 'cancelled' });
    if (waits) model.trimList();
  });

const sendAgain = (n: number) =>
  step(`redeliver ${n}`, async (model, { db, clientToken }) => {
    const { facts, now } = model;
    const [id, { asset } = { asset: '' }] = pick([...facts.notifications], n) ?? [];
    if (id === undefined) return;
    const dueId = await redeliver(db, clientToken, id);
    if (!facts.owed.has(asset)) {
      model.setRight(longestLeaseMs);
      const failed = facts.failed.get(asset);
      model.reopen(failed?.id ?? id, true);
      if (failed !== undefined) model.trimList();
    }
    const owed = facts.owed.get(asset);
    assert.equal(dueId, owed?.id);
    if (facts.holders.has(asset)) {
      if (owed !== undefined) owed.quiet = undefined;
      return;
    }
    const live = model.waiting().filter((one) => one.live);
    // Before all others.
    const due = Math.min(now, ...live.map((one) => one.due)) - 1;
    Object.assign(owed ?? {}, { live: true, due });
    if (facts.state === 'failing') facts.probeAt = now;
  });

const forget = (n: number) =>
  step(`forget ${n}`, async (model, { db, clientToken }) => {
    const asset = pick(assets, n) ?? '';
    const { owed, failed } = model.facts;
    const knownSegments = model.knownOf(asset).segments.size;
    const cancelled = (owed.get(asset) ?? failed.get(asset))?.id;
    const forgotten = await forgetAsset(db, clientToken, asset);
    assert.deepEqual(forgotten, { knownSegments, ...(cancelled && { cancelled }) });
    model.forget(asset);
    // A repeat, as after a lost answer, changes nothing.
    assert.deepEqual(await forgetAsset(db, clientToken, asset), { knownSegments: 0 });
  });

/** The time of an asset's segments is over, or Redis' clock was ahead for a moment. */
const age = (n: number) =>
  step(`age ${n}`, async (model, { db, clientToken }) => {
    if (!model.limits.keptDays) return;
    const asset = pick(assets, n) ?? '';
    const slot = assetSlot(asset);
    const keys = db.client(clientToken);
    await db.redis.hdel(keys.known(slot.bucket), slot.field);
    model.age(asset);
  });

/** While an attempt holds it, an asset is cancelled or forgotten, and its event comes again, or another one, or it is sent again. */
const takeBack = (n: number, end: 'cancel' | 'forget' | 'age', again: 'the same' | 'another' | 'redeliver') =>
  step(`${end} in flight ${n}, ${again}`, async (model) => {
    const [asset] = pick([...model.facts.holders], n) ?? [];
    const last = model.accepted.findLast(({ event }) => event.platformId === asset);
    const before = last?.event;
    const { notificationId = '' } = { ...before, ...last?.renewed };
    const index = [...model.facts.notifications.keys()].indexOf(notificationId);
    if (asset === undefined || before === undefined || index < 0) return;
    const events: Events = ({ client }) =>
      again === 'the same' ? [before] : [client.event({ platformId: asset })];
    for (const one of [
      end === 'cancel' ? cancel(index) : { forget, age }[end](assets.indexOf(asset)),
      again === 'redeliver' ? sendAgain(index) : claim(events, again, { most: 64, isLost: false }),
    ])
      await one.run(model, undefined);
  });

const anyTime = { since: 0, until: Number.MAX_SAFE_INTEGER };

const recover = step('recover', async (model, { db, clientToken }) => {
  const failed = model.failedYet();
  assert.equal((await recoverFailed(db, clientToken, { ...anyTime, dryRun: true })).count, failed.length);
  // A call whose answer is lost has recovered the oldest.
  const first = await recoverFailed(db, clientToken, { ...anyTime, dryRun: false }, 1);
  const { until } = anyTime;
  assert.deepEqual(first, { count: Math.min(1, failed.length), more: Math.max(0, failed.length - 1), until });
  const rest = await recoverFailed(db, clientToken, { ...anyTime, dryRun: false });
  assert.deepEqual(rest, { count: first.more, more: 0, until });
  if (failed.length > 0) model.setRight(longestLeaseMs);
  for (const { id, live } of failed) model.reopen(id, live);
  if (failed.length > 0) model.drain();
  model.trimList();
});

const dismiss = step('dismiss', async (model, { db, clientToken }) => {
  const { length } = model.failedYet();
  const done = await dismissFailed(db, clientToken, { ...anyTime, dryRun: false });
  assert.deepEqual(done, { count: length, more: 0, until: anyTime.until });
  model.dismiss();
});

const deletion = step('delete', async (model, { db, clientToken }) => {
  if (model.facts.deleted) return;
  await deleteClient(db, clientToken);
  if (model.facts.registered) model.newUrl();
  Object.assign(model.facts, { deleted: true, registered: false });
});
const clear = step('clear', async (model, { db, clientToken }) => {
  const { deleted, owed } = model.facts;
  const { cancelled } = await clearDeletedClient(db, clientToken);
  assert.equal(cancelled, deleted ? owed.size : 0);
  if (deleted) model.clear();
});

let replays = 0;
/** By their newest notifications: where one has no record, it counts as delivered soon after the update that it notified. */
const replayUntil = (agoMs: number) =>
  step(`replay until ${agoMs} ms ago`, async (model, { db, clientToken, now }) => {
    const { limits } = model;
    const span = { since: ++replays, until: now() - agoMs };
    const { notifications, owed, failed, known, listed } = model.facts;
    const due = [...(limits.isOfNotices ? [] : known)].filter(([asset, { last, updatedUs, isNotified }]) => {
      const { state, endedAt = 0 } = notifications.get(last) ?? {};
      const at = state === undefined ? Math.floor(updatedUs / 1000) : endedAt;
      const isIn = state === undefined ? !failed.has(asset) : state === 'delivered';
      const isBefore = at <= span.until || (state === undefined && isNotified === false);
      return last !== '' && !owed.has(asset) && isIn && isBefore;
    });
    const { count, isAtLeast } = await countSpan(db, clientToken, span, () => {});
    assert.deepEqual([count, isAtLeast], [due.length, false]);
    const fast = { ...db, settings: { ...db.settings, drainPerSecond: 1000 } };
    for (const outcome of ['begun', 'same'])
      assert.equal((await beginReplay(fast, clientToken, span)).outcome, outcome);
    const { replay: done } = await getEndpoint(db, clientToken);
    assert.deepEqual([done?.runs, done?.count], [false, due.length]);
    if (due.length > 0) model.setRight(longestLeaseMs);
    for (const [asset, { last, updatedUs }] of due) {
      const acceptedAt = Math.floor(updatedUs / 1000);
      const anew = {
        asset,
        state: 'delivered',
        claim: 0,
        live: false,
        timed: false,
        failures: 0,
        acceptedAt,
      } as const;
      if (!notifications.has(last)) {
        // Its first time is gone with the record.
        model.setFates(asset, 'cancelled', 'past', last);
        notifications.set(last, anew);
        listed.set(last, acceptedAt);
      }
      model.reopen(last, false);
      model.notification(last).live = false;
    }
    if (due.length > 0) model.drain();
    model.trimList();
  });
/** Also of what a clock that was ahead has noted later than the present. */
const replay = replayUntil(-1000 * day);

/** An operator, or the publisher, changes the client's bounds while assets wait and are in flight. */
const bound = (change: Partial<Limits>) =>
  step(`bound ${JSON.stringify(change)}`, async ({ limits, facts }, { db, clientToken }) => {
    if (facts.deleted) return;
    const { maxInFlight, perSecond, quietMs = 0 } = Object.assign(limits, change);
    const given = { max_in_flight: maxInFlight, max_per_second: perSecond };
    await setClient(db, clientToken, { ...given, quiet_seconds: quietMs / second });
  });

const pass = (ms: number) =>
  step(`pass ${ms} ms`, async ({ processes }, client) => {
    client.pass(ms);
    if (ms > 0) return;
    // Redis ends the leases of before.
    for (const process of processes) {
      process.answered.clear();
      process.setBack = [...process.posts];
    }
  });

/** Redis' clock alone runs ahead of the callers' clocks, or agrees with them again. */
const setAhead = (ms: number) =>
  step(`clock ${ms} ms ahead`, async ({ processes }, client) => {
    client.setAhead(ms);
    for (const process of processes) {
      process.answered.clear();
      process.setBack = [...process.posts];
    }
  });

const seeClock = step('see the clock', async (model, { db }) => {
  await witnessClocks(db, keptLog().log);
  model.seeClock();
});

const trim = step('trim', async (model, { db, clientToken }) => {
  await trimFailed(db, clientToken);
  model.trimFailed();
});

/** What waits fails, and is forgotten once it has been kept for long. */
const outlast = step('outlast', async (model) => {
  for (const one of [pass(2 * day), plan(0), pass(91 * day), trim]) await one.run(model, undefined);
});

const save = step('save', async (model, client) => {
  const { facts, limits } = structuredClone({ facts: model.facts, limits: model.limits });
  model.saved ??= { facts, limits, restore: await snapshot(client) };
});
/** Redis loses what came since; processes and workflows do not. */
const lose = step('lose', async (model) => {
  if (model.saved === undefined) return;
  await model.saved.restore();
  model.facts = model.saved.facts;
  Object.assign(model.limits, model.saved.limits);
  for (const { answered } of model.processes) answered.clear();
  model.saved = undefined;
  model.untold.clear();
  model.position = undefined;
});

/** The model's facts that are fields of the endpoint's hash, where `aName` is `a_name`. */
const fields = [
  ...(['epoch', 'urlEpoch', 'failures', 'notBefore', 'probeAt', 'recoveredAt', 'rateAt'] as const),
  ...([
    'drainAt',
    'places',
    'picks',
    'leasesEnd',
    'clockSeen',
    'turned',
    'pullBelow',
    'pullFailedBefore',
    'clockMs',
    'clockAt',
  ] as const),
  'lastSuccessAt' as const,
];

/** Reads hashes and sorted sets, names and values in turn. */
const readAll = `
local read = {}
for i, key in ipairs(KEYS) do
  local isSet = redis.call('TYPE', key).ok == 'zset'
  read[i] = isSet and redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') or redis.call('HGETALL', key)
end
return read`;

async function agrees(model: Model): Promise<void> {
  model.syncClock();
  const looks = [keysAgree, standingsAgree, lossIsFound, readsOn];
  await Promise.all(looks.map((look) => look(model)));
}

/** Every claimed notification has ended or is owed, and every key of what is owed says the same. */
async function keysAgree(model: Model): Promise<void> {
  const { facts, client } = model;
  const keys = client.db.client(client.clientToken);
  const hashes = [keys.endpoint, keys.owed, keys.flight, keys.failed, keys.failedIds];
  const sets = [keys.owedSince, keys.dueLive, keys.dueBackfill, keys.failedAt];
  const ids = [...facts.notifications.keys()];
  const all = [...hashes, ...sets, ...ids.map(keys.notification)];
  const read = (await client.db.redis.eval(readAll, all.length, ...all)) as string[][];
  const pairs = (of: string[][]) => of.map((flat) => Object.fromEntries(toPairs(flat)));
  const [e = {}, owed = {}, flight = {}, failed = {}, failedIds = {}] = pairs(read.splice(0, hashes.length));
  const [since, live, backfill, failedAt] = read.splice(0, sets.length);
  const records = pairs(read);
  model.catchUpUntil = e.catch_up_until;
  model.plannedAt = Number(e.planned_at ?? 0);
  assert.equal(e.state ?? 'active', facts.state);
  for (const name of fields) {
    const field = name.replaceAll(/[A-Z]/g, (one) => `_${one.toLowerCase()}`);
    assert.equal(Number(e[field] ?? 0), facts[name], field);
  }

  const waiting = model.waiting();
  const dueIn = (isLive: boolean) =>
    new Map(waiting.flatMap((one) => (one.live === isLive ? [[one.asset, one.due]] : [])));
  assert.deepEqual(new Map(Object.entries(owed)), new Map(waiting.map(({ asset, id }) => [asset, id])));
  assert.deepEqual(timesOf(since), new Map(waiting.map((one) => [one.asset, one.since])), 'owed since');
  assert.deepEqual(timesOf(live), dueIn(true), 'due, live');
  assert.deepEqual(timesOf(backfill), dueIn(false), 'due, backfill');
  assert.deepEqual(Object.keys(flight).sort(), [...facts.holders.keys()].sort(), 'in flight');
  for (const [asset, { nonce, id, lease, isPast }] of facts.holders) {
    const newer = facts.owed.get(asset);
    const kept = newer ? `${newer.since} ${newer.live ? 'L' : 'B'}` : '\\d+ .';
    const quiet = newer?.quiet ? ` ${newer.quiet}` : '';
    const behind = newer === undefined ? ' !' : isPast ? ` ${newer.id}${quiet}` : '';
    assert.match(flight[asset] ?? '', new RegExp(`^${nonce} ${lease} ${kept} ${id}${behind}$`));
  }
  assert.deepEqual(timesOf(failedAt), new Map([...facts.failed].map(([asset, { at }]) => [asset, at])));
  for (const [asset, { id, live: isLive }] of facts.failed)
    assert.match(
      failed[asset] ?? '',
      new RegExp(`^${id} (window|expired) ${isLive ? 'L' : 'B'} \\d+ \\d+ \\S+ \\S+$`),
    );
  assert.equal(Object.keys(failed).length, facts.failed.size);
  const ofIds = [...facts.failed].map(([asset, { id }]) => [id, asset]);
  assert.deepEqual(new Map(Object.entries(failedIds)), new Map(ofIds as [string, string][]));
  const { at, since: first, reason } = JSON.parse(e.failed_notice ?? '{}');
  assert.deepEqual(at && { at, since: first, reason }, facts.failedNotice);
  recordsAgree(facts, records);
}

const timesOf = (flat: string[] = []): Map<string, number> =>
  new Map(toPairs(flat).map(([asset, at]) => [asset, Number(at)]));

/** @param records the fields of each, in the order of the notifications */
function recordsAgree(facts: Model['facts'], records: Record<string, string>[]): void {
  for (const [i, [id, notification]] of [...facts.notifications].entries()) {
    const { state, asset, by, reason, live, claim, failures } = notification;
    const { priority, failures: failed, ...record } = records[i] ?? {};
    const said = [record.state ?? 'waiting', record.by, record.reason];
    assert.deepEqual(said, [state, by, reason], `${id} of ${asset}`);
    assert.equal(state === 'waiting', facts.owed.get(asset)?.id === id, 'owed or ended');
    if (claim > 0) assert.deepEqual([priority !== 'backfill', Number(failed ?? 0)], [live, failures]);
    if (facts.failed.get(asset)?.id === id) assert.equal(state, 'failed');
    const replacing = facts.notifications.get(by ?? '');
    if (replacing !== undefined) assert.equal(replacing.asset, asset, 'what took its place');
  }
}

/** Workflows, people and the sweep are told the same, and it is what take does. */
async function standingsAgree(model: Model): Promise<void> {
  const { facts, client, now } = model;
  const { db, clientToken } = client;
  const asked = [...facts.owed].map(([platformId, { id: notificationId }]) => ({
    platformId,
    notificationId,
    claim: model.notification(notificationId).claim,
  }));
  const askedAt = Date.now();
  const [found, { waitingReason, nextAttemptAt, owed, inFlight, catchUpUntil, catchUpLateMs, ...endpoint }] =
    await Promise.all([readStandings(db, clientToken, asked), getEndpoint(db, clientToken)]);
  const readAt = Date.now();
  for (const [i, { platformId }] of asked.entries()) {
    const [said, why] = [found[i] ?? 'lost', model.reasonOf(platformId)];
    assert.ok(said !== 'lost' && said.state === 'waiting', JSON.stringify(said));
    const left = inMs(model, why.at);
    assert.deepEqual([said.reason, said.at !== undefined], [why.reason, left !== undefined]);
    // By the machine's clock, at the answer.
    const answeredAt = (said.at ?? readAt) - (left ?? 0);
    assert.ok(answeredAt >= askedAt && answeredAt <= readAt, `${answeredAt - askedAt} ms`);
  }
  assert.deepEqual([owed, inFlight], [model.waiting().length + facts.holders.size, facts.holders.size]);
  assert.ok(!model.isTurned || catchUpLateMs > minute, 'the sweep sets the alarm');
  const failed = model.failedYet();
  assert.deepEqual([endpoint.failed, endpoint.failedSince], [failed.length, failed[0]?.at]);
  const { deliveredUntil: arrived } = endpoint;
  assert.equal(arrived !== undefined, facts.registered);
  const clock = Math.min(now, client.callersNow());
  if (arrived !== undefined && facts.owed.size === 0) assert.equal(arrived, clock, 'all has arrived');
  for (const { id, at, fate } of facts.updates)
    assert.ok(fate !== 'open' || (arrived ?? 0) <= Math.min(at, clock), `${id} has not arrived`);
  const next = model.nextTime();
  // What is due has been due since some time in the past.
  const reason = owed > 0 ? next.reason : undefined;
  if (reason === 'due' && catchUpUntil === undefined) assert.ok(catchUpLateMs >= 0, 'the sweep sees it');
  if (nextAttemptAt !== undefined)
    assert.ok(
      -catchUpLateMs <= Math.max(nextAttemptAt - now, 0) + 2 * minute,
      `${reason}: the sweep sees in ${catchUpLateMs} ms what is due in ${nextAttemptAt - now} ms`,
    );
  assert.deepEqual([waitingReason, nextAttemptAt], [reason, next.at && Math.max(next.at, now)]);
}

/** The workflow of an event finds out that Redis has lost its claim, and only then. */
async function lossIsFound(model: Model): Promise<void> {
  const accepted = pick(model.accepted, model.now);
  if (accepted === undefined) return;
  const { event, claim, renewed } = accepted;
  const { platformId, notificationId } = { ...event, ...renewed };
  const found = await model.client.look({ platformId, notificationId, claim });
  const known = model.knownOf(platformId);
  const isOwed = model.facts.owed.get(platformId)?.id === notificationId;
  const isLost = known.claim < claim || (known.claim === claim && known.last !== notificationId);
  const ended = model.facts.notifications.get(notificationId)?.state ?? 'unknown';
  assert.equal(found === 'lost' ? found : found.state, isOwed ? 'waiting' : isLost ? 'lost' : ended);
}

/** Continues where the last step ended: no update is skipped, whenever its event was accepted and claimed. */
async function readsOn(model: Model): Promise<void> {
  const { db, clientToken } = model.client;
  const mayBeGone = model.facts.deleted || (model.limits.keptDays ?? 0) > 0;
  for (let hasMore = true; hasMore; ) {
    const page = await readUpdates(db, clientToken, 2, model.position);
    assert.ok(page || (mayBeGone && model.position), 'the position is known');
    model.position = page?.end;
    hasMore = page?.hasMore ?? true;
    for (const { platformId } of page?.updates ?? []) model.untold.delete(platformId);
  }
  assert.deepEqual([...model.untold], [], 'updates that were skipped');
}

/** Once nothing is in its way any more, all that is owed is delivered: nothing was forgotten. A deleted client is owed nothing. */
async function drains(model: Model): Promise<void> {
  const { client, facts } = model;
  if (facts.deleted)
    for (const one of [clear, pass(leaseMs), clear, plan(0)]) await one.run(model, undefined);
  for (const end of [setPaused, setHeld]) await end(client.db, client.clientToken, false);
  if (!facts.registered && !facts.deleted) await client.register();
  client.setAhead(0);
  client.settings.retentionMs = Number.MAX_SAFE_INTEGER;
  await resumeEndpoint(client.db, client.clientToken);
  for (let round = 0; round < 60; round++) {
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
const answer = fc.oneof(
  { weight: 20, arbitrary: fc.constantFrom<AnswerName>('ok', 'fail') },
  { weight: 3, arbitrary: fc.constantFrom<AnswerName>('gone', 'slowDown', 'later') },
);

let arrivals = 0;
/** Makes an event that a process accepted whose clock is right, ahead or behind, or long before it claims the event. */
const arrived = (client: DeliveryClient, given: Parameters<DeliveryClient['event']>[0]): ArrivedEvent =>
  client.event({ ...given, acceptedAt: client.now() + ([0, 40, -40, -hour][arrivals++ % 4] ?? 0) });

type Named = [Events, string];
const several = fc
  .array(anyEvent, { minLength: 1, maxLength: 4 })
  .map((given): Named => [({ client }) => given.map((one) => arrived(client, one)), JSON.stringify(given)]);
/** An event sent again, or another one that says the same. */
const repeated = fc.tuple(anyNumber, fc.boolean()).map(([n, isSame]): Named => {
  const events: Events = ({ accepted, client }) => {
    const event = pick(accepted.slice(-5), n)?.event;
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
    givenBack: fc.array(anyNumber, { maxLength: 2 }),
    most,
    isLost: rarely,
  })
  .map(turn);
/** Time passes, then what is due is taken and answered. */
const anyRound = fc
  .tuple(fc.array(fc.tuple(anyNumber, answer), { maxLength: 4 }), fc.constantFrom(second, 7 * second, minute))
  .map(([verdicts, ms]) =>
    step(`a round after ${ms} ms: ${JSON.stringify(verdicts)}`, async (model) => {
      const calls = [
        { verdicts: [], most: 64 },
        { verdicts, most: 0 },
      ];
      const turns = calls.map((call) => turn({ ...call, givenBack: [], isLost: false }));
      for (const one of [pass(ms), ...turns]) await one.run(model, undefined);
    }),
  );
const which = fc.nat({ max: 1 });
const anyEnd = fc.oneof(
  { weight: 4, arbitrary: answer },
  { weight: 1, arbitrary: fc.constantFrom('crowded' as const, 'own' as const) },
);
const fate = fc.constantFrom<Fate>('answered', 'answered', 'answered', 'lost', 'late', 'unanswered', 'full');
const processes: fc.Arbitrary<Step>[] = [
  fc.tuple(which, several).map(([n, [events, name]]) => arrives(n, events, name)),
  ...Array<fc.Arbitrary<Step>>(3).fill(
    fc.tuple(which, fc.constantFrom(1, 16), fate).map((all) => acts(...all)),
  ),
  ...Array<fc.Arbitrary<Step>>(2).fill(fc.tuple(which, anyNumber, anyEnd).map((all) => ends(...all))),
  fc.oneof(which.map(pokes), which.map(pokes), fc.constant(runsLate), which.map(closes)),
];
const anyStep: fc.Arbitrary<Step>[] = [
  ...processes,
  // Frequent steps are listed more than once.
  ...Array<fc.Arbitrary<Step>>(3).fill(claims),
  ...Array<fc.Arbitrary<Step>>(5).fill(anyTurn),
  ...Array<fc.Arbitrary<Step>>(8).fill(anyRound),
  several.map(([events, name]) => loseClaim(events, name)),
  anyNumber.map(claimAgain),
  fc.tuple(anyNumber, most).map(([n, most]) => repeat(n, most)),
  fc.oneof(anyNumber.map(cancel), anyNumber.map(forget), anyNumber.map(sendAgain), anyNumber.map(sendAgain)),
  fc
    .tuple(
      anyNumber,
      fc.constantFrom('cancel', 'forget', 'cancel', 'forget', 'age'),
      fc.constantFrom('the same', 'another', 'redeliver'),
    )
    .map((all) => takeBack(...all)),
  fc.oneof(
    { weight: 4, arbitrary: anyNumber.map(age) },
    {
      weight: 4,
      arbitrary: fc.tuple(fc.constantFrom('register', 'again'), fc.boolean()).map((all) => register(...all)),
    },
    { weight: 1, arbitrary: fc.constantFrom(deletion, clear, clear, clear) },
  ),
  fc.constantFrom(plan(0), plan(15 * second)),
  fc.constantFrom(recover, dismiss, replay, replayUntil(0), replayUntil(hour), lists, save, lose, outlast),
  fc.oneof(
    fc.constantFrom(0, leaseMs, minute).map(alarm),
    fc.constantFrom(1, 2, 5).map((maxInFlight) => bound({ maxInFlight })),
    fc.constantFrom(0, 0, 0.5, 50).map((perSecond) => bound({ perSecond })),
    fc.constantFrom(0, 2 * second, minute).map((quietMs) => bound({ quietMs })),
  ),
  fc.constantFrom(...operator, ...putBack),
  fc.constantFrom(second, second, 7 * second, leaseMs, minute, minute, 5 * hour, 2 * day).map(pass),
  // Redis' clock is set back, or a replica with another clock takes over.
  fc.constantFrom(-400, -3 * second, -5 * minute, -hour).map(pass),
  fc.constantFrom(0, 0, 700, 7 * second, hour, 32 * day).map(setAhead),
  fc.constantFrom(seeClock, seeClock, seeClock, trim),
];
const anyLimits = fc.record<Limits>({
  maxInFlight: fc.constantFrom(1, 2, 4, 5),
  perSecond: fc.constantFrom(0, 0, 0, 0.5, 50),
  drainPerSecond: fc.constantFrom(200, 20, 0.5),
  quietMs: fc.constantFrom(0, 0, 2 * second, minute),
  // Longer than any run: `age` ends the time of an asset's segments.
  keptDays: fc.constantFrom(0, 0, 3650),
  isOfNotices: fc.constantFrom(false, false, false, true),
  isPatient: fc.boolean(),
});

describe('known and owed, in every interleaving', () => {
  const redis = openForSuite(() => startOwnRedis(['--appendonly', 'no']));
  before(async () => {
    const connection = new Redis(redis.port);
    await connection.call('FUNCTION', 'LOAD', frozen);
    connection.disconnect();
  });

  /** Runs the steps, and checks that in the end everything owed is delivered. */
  async function keepsPromises(steps: Iterable<Step>, failingAfter: number, limits: Limits): Promise<void> {
    const { maxInFlight, drainPerSecond, perSecond, quietMs = 0, keptDays = 0 } = limits;
    const own = {
      keepSegmentsSeconds: (keptDays * day) / second,
      failingAfter,
      maxInFlight,
      drainPerSecond,
      probeScheduleMs: [second, minute],
    };
    const retries = limits.isPatient && { retryScheduleMs: [10 * minute, hour], retryWindowMs: day };
    const ends = {
      retryWindowMs: 10 * second,
      suspendAfterMs: 2 * minute,
      suspendMinimumAttempts: 3,
      ...retries,
    };
    const client = await newDeliveryClient({ ...own, ...ends, retentionMs: day }, redis.url, startedAt);
    const given = { max_per_second: perSecond, quiet_seconds: quietMs / second };
    await setClient(client.db, client.clientToken, given);
    client.isOfNotices = limits.isOfNotices ?? false;
    const model = new Model({ ...limits }, client);
    await fc.asyncModelRun(() => ({ model, real: undefined }), steps);
    await becomeQuiet(model);
    await lists.run(model, undefined);
    await drains(model);
    client.db.redis.disconnect();
  }

  it('agree with the model and keep its promises', async () => {
    const steps = fc.commands(anyStep, { maxCommands: 100, size: 'max' });
    await fc.assert(fc.asyncProperty(steps, fc.constantFrom(1, 2, 5), anyLimits, keepsPromises), {
      numRuns: Number(process.env.MODEL_RUNS ?? 80),
      // What a failure prints: {"seed": …, "path": "…"}.
      ...JSON.parse(process.env.MODEL_REPLAY ?? '{}'),
      endOnFailure: process.env.MODEL_SHRINK === undefined,
      interruptAfterTimeLimit: process.env.MODEL_RUNS ? 500_000 : 40_000,
    });
  }).timeout(600_000);

  const sameEvent: Events = ({ client }) => [client.event(event('a', '1'))];
  const newEvent: Events = ({ client, accepted }) => [client.event({ platformId: `vid-${accepted.length}` })];
  const event = (platformId: string, segment: string) =>
    ({ platformId, segments: [segment], priority: 'live', notify: true }) as const;
  const claimOf = (most: number, ...given: ReturnType<typeof event>[]) =>
    claim(({ client }) => given.map((one) => client.event(one)), '', { most, isLost: most === 1 });
  const turned = (...verdicts: Drawn['verdicts']) =>
    turn({ verdicts, givenBack: [], most: 1, isLost: false });
  const takesNone = turn({ verdicts: [], givenBack: [], most: 0, isLost: false });
  const takesOne = [arrives(0, newEvent, 'an event'), acts(0, 16, 'answered')];
  const sent = claimOf(2, event('a', '1'));
  const timesOut = acts(0, 16, 'unanswered');
  const waiting = [bound({ quietMs: hour }), claimOf(0, event('a', '1')), pass(minute), plan(0)];
  const acted = (name: string) => operator.filter((one) => String(one) === name);
  const probeFails = [...acted('resume'), turned(), turned([1, 'fail'])];
  for (const [what, steps] of [
    [
      'a hand sends nothing twice after a pause of its process',
      [...takesOne, pokes(0), acts(0, 16, 'answered'), pass(leaseMs + second), ends(0, 0, 'ok'), ...takesOne],
    ],
    [
      'a hand sends nothing twice after Redis was away for longer than a lease',
      [...takesOne, ends(0, 0, 'ok'), timesOut, pass(leaseMs + second), timesOut, ...takesOne, ...takesOne],
    ],
    [
      'a hand gives up nothing before it has waited for Redis since its end',
      [
        ...[...takesOne, ends(0, 0, 'ok'), timesOut, pass(12 * second), closes(0)],
        ...[timesOut, pass(9 * second), timesOut],
      ],
    ],
    [
      'an asset whose process died is sent before what arrives with its next event',
      [claimOf(1, event('a', '1')), pass(leaseMs + second), claimOf(64, event('c', '1'), event('a', '2'))],
    ],
    [
      'what is forgotten in flight and comes again is sent again',
      [sent, takeBack(0, 'forget', 'the same'), turned([0, 'ok']), turned([1, 'ok'])],
    ],
    [
      'what is cancelled in flight and redelivered is sent again',
      [sent, takeBack(0, 'cancel', 'redeliver'), turned([0, 'ok']), turned([1, 'ok'])],
    ],
    [
      'what has failed is sent when a former one of its asset is sent again, which its receiver may have had',
      [
        ...[sent, turned([0, 'ok']), claimOf(64, event('a', '2')), turned([0, 'fail'])],
        ...[pass(2 * day), plan(0), sendAgain(0), turned([0, 'ok'])],
      ],
    ],
    [
      'what is forgotten in flight waits for the quiet period of its next event',
      [sent, bound({ quietMs: minute }), takeBack(0, 'forget', 'another'), turned([0, 'ok'])],
    ],
    [
      'a quiet period keeps its length, whatever the client has by the time its URL changes',
      [bound({ quietMs: minute }), sent, bound({ quietMs: 0 }), changeUrl],
    ],
    [
      'quiet periods keep their length after a step back of the clock',
      [
        ...[bound({ quietMs: minute }), sent, claimOf(2, event('b', '1'), event('c', '1'), event('d', '1'))],
        ...[pass(-hour), turned(), turned(), turned()],
      ],
    ],
    [
      'nothing has arrived by the clock of the callers, which step back within a second',
      [turned(), setAhead(hour), pass(-hour), claimOf(0, event('a', '1'))],
    ],
    ...[700, hour].map((ms): [string, Step[]] => [
      `a clock that runs ${ms} ms ahead hides nothing that has not arrived, neither then nor once it is right again`,
      [
        ...[setAhead(ms), claimOf(0, event('a', '1')), pass(minute), setAhead(0)],
        ...[seeClock, plan(0), pass(minute)],
      ],
    ]),
    [
      'what is put first while the clock is ahead is owed since the right time after it',
      [
        ...[claimOf(0, event('a', '1')), setAhead(hour), claimOf(0, event('b', '1')), sendAgain(1)],
        ...[cancel(0), setAhead(0), takesNone, pass(2 * hour)],
      ],
    ],
    [
      'and so is what was taken before all was set right',
      [
        ...[claimOf(0, event('a', '1')), setAhead(hour)],
        ...[claimOf(0, ...['b', 'c', 'd', 'e'].map((asset) => event(asset, '1'))), sendAgain(1), cancel(0)],
        ...[setAhead(0), turned(), takesNone, takesNone, turned([0, 'fail'])],
        ...[cancel(2), cancel(3), cancel(4), pass(2 * hour)],
      ],
    ],
    [
      'what is set right later than the time that it was owed since says when it was owed, too',
      [
        ...[setAhead(hour), claimOf(0, ...['a', 'b', 'c', 'd', 'e'].map((asset) => event(asset, '1')))],
        ...[setAhead(700), takesNone, cancel(4), cancel(3), pass(2 * hour), takesNone],
      ],
    ],
    [
      'an alarm that is set after a plan of another clock is kept',
      [
        ...[loseClaim(newEvent, 'an event without a workflow'), claimAgain(0), turned()],
        claim(newEvent, 'another event', { most: 1, isLost: false }),
        ...[plan(15 * second), pass(-300 * second), turned([2, 'fail'], [1, 'gone'])],
      ],
    ],
    [
      'a hold that ends is seen by the sweep, also where the endpoint fails',
      [
        claimOf(64, ...['a', 'b', 'c', 'd', 'e'].map((asset) => event(asset, '1'))),
        turned([0, 'fail'], [1, 'fail'], [2, 'fail'], [3, 'fail'], [4, 'fail']),
        ...[...acted('hold'), pass(hour), plan(0), pass(minute), ...acted('end the hold')],
      ],
    ],
    [
      'an endpoint that was resumed is suspended no more before it has failed often since',
      [sent, turned([0, 'gone']), ...probeFails, pass(hour), turned(), turned([1, 'fail'])],
    ],
    [
      'nor before it has failed for long since',
      [
        ...[sent, turned([0, 'fail']), pass(hour), turned(), turned([1, 'gone'])],
        ...[...probeFails, ...probeFails, ...probeFails],
      ],
    ],
    [
      'what an endpoint refuses while it accepts others keeps its time after an outage',
      [
        ...[sent, turned([0, 'fail']), pass(7 * second), turned(), turned([1, 'fail'])],
        ...[claimOf(2, event('b', '1')), turned([1, 'ok'])],
        claimOf(64, ...['b', 'c', 'd'].map((asset) => event(asset, '2'))),
        turned([1, 'fail'], [2, 'fail'], [3, 'fail']),
        ...[claimOf(64, event('e', '1'), event('f', '1')), turned([1, 'fail'], [2, 'fail'])],
        ...[pass(2 * second), turned(), turned([1, 'ok']), turned()],
      ],
    ],
    [
      'an endpoint that has recovered gets one more place with each success',
      [
        claimOf(64, ...['a', 'b', 'c', 'd', 'e'].map((asset) => event(asset, '1'))),
        turned([0, 'fail'], [1, 'fail'], [2, 'fail'], [3, 'fail'], [4, 'fail']),
        ...[pass(2 * second), turned(), turned([1, 'ok']), turned([1, 'ok']), turned([1, 'ok'])],
      ],
    ],
    [
      'what recover and a replay owe again is sent at the drain rate',
      [
        ...[sent, turned([0, 'ok']), claimOf(2, event('b', '1')), turned([1, 'fail']), pass(2 * day)],
        ...[plan(0), recover, turned(), replay, turned()],
      ],
    ],
    [
      'what is superseded while it waits is seen by the sweep',
      [...waiting, bound({ quietMs: 0 }), claimOf(0, event('a', '2'))],
    ],
    [
      'what is redelivered while it waits is seen by the sweep',
      [...waiting, sendAgain(0), sendAgain(0), sendAgain(0)],
    ],
    [
      'what waits no longer for Retry-After is seen by the sweep',
      [sent, turned([0, 'later']), claimOf(0, event('b', '1')), plan(0), pass(second), ...acted('resume')],
    ],
    [
      'what a hold’s end makes due is seen by the sweep after a step back of the clock',
      [
        ...[...waiting, bound({ quietMs: 0 }), claimOf(0, event('a', '2')), pass(-hour), takesNone],
        ...[...acted('hold'), takesNone, ...acted('end the hold')],
      ],
    ],
    [
      'a client of notices is sent one again that was not needed when it was claimed again',
      [
        ...[
          loseClaim(sameEvent, 'an event without a workflow'),
          claim(sameEvent, 'another', { most: 1, isLost: false }),
        ],
        ...[claimAgain(0), turned([0, 'ok']), sendAgain(1), turned([0, 'ok'])],
      ],
    ],
    [
      'a client of notices has not heard of one that failed and is sent again',
      [sent, turned([0, 'fail']), pass(2 * day), plan(0), sendAgain(0)],
    ],
    [
      'a client of notices has nothing to replay, whatever it was to get without a URL',
      [
        sent,
        turned([0, 'ok']),
        ...acted('reset'),
        claimOf(2, event('a', '2')),
        register('register', true),
        replay,
      ],
    ],
  ] as const) {
    const limits = { maxInFlight: 5, perSecond: 0, drainPerSecond: 200 };
    it(what, () => keepsPromises(steps, 5, { ...limits, isOfNotices: what.includes('of notices') }));
  }
});
