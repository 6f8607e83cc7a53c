/** What is known and owed, and what may be sent when, in plain words: the scripts must do the same (model.test.ts). Times are ms. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { Hand } from '../../src/delivery/hand.js';
import { idFromBytes, idToBytes } from '../../src/ids.js';
import type { Place } from '../../src/redis/notifications/updates.js';
import type { ArrivedEvent, Claim } from '../../src/redis/owed/claim.js';
import type { Plan } from '../../src/redis/owed/standing.js';
import type { Settled, Taken, Verdict } from '../../src/redis/owed/turn.js';
import type { WaitReason } from '../../src/redis/owed/waitReasons.js';
import { type Answer, type DeliveryClient, day, leaseMs, minute } from './deliveryClient.js';

interface Notification {
  asset: string;
  state: 'waiting' | 'delivered' | 'superseded' | 'not_needed' | 'failed' | 'cancelled';
  claim: number;
  /** As its record says; its asset may have become live since. */
  live: boolean;
  /** Its workflow times its next retry. */
  timed: boolean;
  failures: number;
  /** The endpoint's clock at the first of them. */
  failingSince?: number | undefined;
  failedEpoch?: number;
  acceptedAt: number;
  endedAt?: number;
  tried?: boolean;
  /** It was owed before: a late verdict of then does not deliver it. */
  again?: boolean;
  by?: string | undefined;
  reason?:
    | ('window' | 'expired' | 'asset_forgotten' | 'url_removed' | 'dismissed' | 'client_deleted')
    | undefined;
  body?: string | undefined;
}

/** An update of an asset while its client had a URL. */
interface Update {
  asset: string;
  id: string;
  at: number;
  /** Of the model, in which it was claimed. */
  step: number;
  /** `open`: it is owed, or its asset by a newer one; otherwise how it ended, for now. */
  fate: 'open' | 'arrived' | 'failed' | 'cancelled' | 'past';
  /** The cancelled notification with which it ended. */
  endedWith?: string;
}

interface OwedAsset {
  id: string;
  live: boolean;
  since: number;
  /** While it waits. */
  due: number;
  /** The end of its quiet period, if that began while an attempt of before held it. */
  quiet?: number | undefined;
}

/** The attempt that holds an asset, until it is settled or a call finds its lease ended. */
interface Holder {
  nonce: string;
  id: string;
  lease: number;
  /** Its asset was cancelled, or is owed by another notification, since it began: its verdict ends nothing that is owed. */
  isPast: boolean;
}

/** What Redis knows, and may lose. */
const newFacts = () => ({
  registered: true,
  /** Which call has stored the URL, and when; one that is not answered can be taken over. */
  stored: { url: '', nonce: '', at: 0, isAnswered: true },
  deleted: false,
  paused: false,
  state: 'active' as 'active' | 'failing' | 'suspended',
  epoch: 1,
  /** Since when the URL stands. */
  urlEpoch: 1,
  failures: 0,
  notBefore: 0,
  /** NaN until the time is read that the script drew. */
  probeAt: 0,
  probeStep: 0,
  recoveredAt: 0,
  rateAt: 0,
  drainAt: 0,
  places: 0,
  picks: 0,
  leasesEnd: 0,
  clockSeen: 0,
  turned: 0,
  setRightBy: 0,
  retryAfter: 0,
  pullBelow: 0,
  /** By the endpoint's clock; 0: nothing keeps its time. */
  pullFailedBefore: 0,
  held: false,
  /** The endpoint's clock: for how long it has run, and since when it runs (0: it is stopped). */
  clockMs: 0,
  clockAt: 0,
  /** By that clock. */
  failingSince: undefined as number | undefined,
  /** The same since the last success, while a suspended endpoint was resumed since. */
  failsSince: undefined as number | undefined,
  /** For how much of that clock it accepted nobody, up to its last recovery. */
  outagesMs: 0,
  lastSuccessAt: 0,
  /** `updatedUs`: when its newest update was claimed, as the feed says it; `isNotified`: by a notification. */
  known: new Map<
    string,
    {
      segments: Set<string>;
      claim: number;
      last: string;
      forgets: number;
      updatedUs: number;
      isNotified?: boolean;
    }
  >(),
  notifications: new Map<string, Notification>(),
  /** The newest notifications: when each was accepted. */
  listed: new Map<string, number>(),
  owed: new Map<string, OwedAsset>(),
  /** By asset, and the notice of the last failure. */
  failed: new Map<string, { id: string; live: boolean; at: number }>(),
  failedNotice: undefined as { reason: string; at: number; since: number } | undefined,
  holders: new Map<string, Holder>(),
  /** In the order of their claims. */
  updates: [] as Update[],
});
type Facts = ReturnType<typeof newFacts>;

/** How many assets of a lane a script makes due: 200, but fewer in this test. */
export const pulledAtOnce = 2;
/** How many notifications are listed: 10,000, but fewer in this test. */
export const listedAtMost = 8;
export const longestLeaseMs = 65_000;
/** For so long is the record of one kept that has ended, and that the list no longer has. */
const askedAgainMs = 3 * minute;
const far = 8_640_000_000_000_000;

export interface Limits {
  maxInFlight: number;
  perSecond: number;
  drainPerSecond: number;
  quietMs?: number;
  /** For how long segments are known without an event; 0: for good. */
  keptDays?: number;
  isOfNotices?: boolean;
  /** Whether its retries come hours later. */
  isPatient?: boolean;
}

/** What an event's notification is called after its asset was forgotten. */
type Renewed = { notificationId: string; forgets: number } | undefined;

/** A quiet period ends at half a millisecond. */
const isQuiet = (due: number): boolean => due % 1 !== 0;

export const answers = {
  ok: { ok: true },
  fail: { ok: false },
  gone: { ok: false, status: 410 },
  slowDown: { ok: false, status: 429, retryAfterMs: minute },
  later: { ok: false, status: 503, retryAfterMs: 10 * minute },
} as const satisfies Record<string, Answer>;
export type AnswerName = keyof typeof answers;

/** A process that sends for the client: what its hand has been told, and what it must not do. */
export type Process = ReturnType<typeof newProcess>;
export const newProcess = () => ({
  hand: new Hand<ArrivedEvent>(leaseMs),
  closedAt: Number.POSITIVE_INFINITY,
  waiting: 0,
  posts: [] as Taken[],
  names: new Map<Verdict, AnswerName>(),
  /** Notifications that were answered 2xx and are not settled: it sends none of them again. */
  answered: new Set<string>(),
  /** What was under way when Redis' clock was set back: it may be sent again although it is answered. */
  setBack: [] as Taken[],
});

export interface Judged {
  taken: Taken;
  name: AnswerName;
}

/** Without a time it ends by a change from outside, or with an attempt. */
interface Why {
  reason: WaitReason;
  at?: number | undefined;
}

export class Model {
  facts = newFacts();
  /** Events that were published, claimed or not, with the number of the claim that may be lost. */
  accepted: { event: ArrivedEvent; claim: number; renewed: Renewed }[] = [];
  /** What processes were told to send, whether they have answered or not. */
  attempts: Taken[] = [];
  lost: { nonce: string; verdicts: Judged[] }[] = [];
  processes = [newProcess(), newProcess()];
  /** Calls that were given up and that Redis runs later. */
  late: (() => Promise<unknown>)[] = [];
  /** Assets with new segments since the last read of the feed, which every step reads; and the position of that read. */
  untold = new Set<string>();
  position: Place | undefined;
  /** As the last step left it. */
  catchUpUntil: string | undefined;
  plannedAt = 0;
  steps = 0;
  /** In which step each attempt began. */
  beganIn = new WeakMap<Taken, number>();
  /** The notifications that the receiver has accepted, with that step: it does nothing for an id that it has had. */
  heard = new Map<string, { asset: string; step: number }>();
  /** What processes know of Redis' clock. */
  witness = { seen: 0, turned: 0 };
  saved: { facts: Facts; limits: Limits; restore(): Promise<void> } | undefined;

  constructor(
    readonly limits: Limits,
    readonly client: DeliveryClient,
  ) {
    Object.assign(this.facts, { recoveredAt: client.now(), clockAt: client.now() });
  }

  /** Those that people can see and recover, the oldest first. */
  failedYet() {
    const since = this.now - this.client.db.settings.keepFailedMs;
    return [...this.facts.failed.values()].filter(({ at }) => at > since).sort((a, b) => a.at - b.at);
  }

  get now(): number {
    return this.client.now();
  }

  /** The clock of the processes, which nobody sets. */
  get elapsed(): number {
    return this.client.elapsed();
  }

  private clock(): number {
    const { clockMs, clockAt } = this.facts;
    const now = Math.min(this.now, this.client.callersNow());
    return clockMs + (clockAt > 0 ? Math.max(now - clockAt, 0) : 0);
  }

  /** The clock of what one notification is refused: it stands still in an outage. */
  private acceptingClock(): number {
    const { state, failsSince, failingSince, outagesMs } = this.facts;
    const began = state === 'active' ? undefined : (failsSince ?? failingSince);
    return (began ?? this.clock()) - outagesMs;
  }

  /** The clock runs while nothing but failures keeps deliveries from the endpoint. */
  syncClock(): void {
    const { facts, now } = this;
    const runs = facts.registered && !facts.paused && !facts.held && facts.state !== 'suspended';
    if (runs && facts.clockAt === 0) facts.clockAt = now;
    if (!runs && facts.clockAt > 0) Object.assign(facts, { clockMs: this.clock(), clockAt: 0 });
  }

  knownOf(asset: string) {
    const known = this.facts.known.get(asset) ?? {
      ...{ segments: new Set<string>() },
      claim: 0,
      last: '',
      forgets: 0,
      updatedUs: 0,
    };
    this.facts.known.set(asset, known);
    return known;
  }

  notification(id: string): Notification {
    return this.facts.notifications.get(id) ?? assert.fail(`${id} was never claimed`);
  }

  /** What waits, the oldest due first. */
  waiting() {
    return [...this.facts.owed]
      .filter(([asset]) => !this.facts.holders.has(asset))
      .map(([asset, owed]) => ({ asset, ...owed }))
      .sort((a, b) => a.due - b.due);
  }

  /** Gives an event the id that it has after its asset was forgotten. */
  renew(event: ArrivedEvent): Renewed {
    const { forgets } = this.knownOf(event.platformId);
    if (forgets === 0) return undefined;
    const digest = createHash('sha1').update(idToBytes(event.notificationId)).update(`${forgets}`).digest();
    return { notificationId: idFromBytes(digest.subarray(0, 16)), forgets };
  }

  /** Claims an event that arrives. @returns the script's answer */
  claim(given: ArrivedEvent): Claim {
    if (this.facts.deleted) return { kind: 'unknown_client' };
    const renewed = this.renew(given);
    const event = { ...given, ...renewed };
    const { last } = this.knownOf(event.platformId);
    const isLast = event.notify && last === event.notificationId;
    const newest = this.facts.notifications.get(last)?.acceptedAt ?? 0;
    if (this.limits.isOfNotices && !isLast && newest > event.acceptedAt)
      return { kind: 'ended', state: 'superseded' };
    const claim = this.claimAs(event, given, renewed);
    return claim.kind === 'claimed' || claim.kind === 'ended'
      ? { ...claim, ...(renewed && { renewed }) }
      : claim;
  }

  private claimAs(event: ArrivedEvent, given: ArrivedEvent, renewed: Renewed): Claim {
    const { platformId: asset, notificationId: id, notify } = event;
    const { registered } = this.facts;
    const known = this.knownOf(asset);
    if (notify && known.last === id) return this.found(id);
    const news = event.segments.filter((one) => !known.segments.has(one));
    if (notify && registered && news.length > 0) {
      const { state } = (this.limits.keptDays && this.facts.notifications.get(id)) || {};
      if (state !== undefined) return { kind: 'ended', state, ...this.stopped() };
      this.accepted.push({ event: given, claim: known.claim + 1, renewed });
      return this.becomesOwed(event, true);
    }
    this.learn(known, news);
    const reason = !notify ? 'silent' : registered ? 'no_new_segments' : 'not_registered';
    if (reason === 'not_registered' && news.length > 0) this.updates(asset, false);
    return { kind: 'none', reason };
  }

  /** Claims an event whose claim may be lost. @returns the script's answer */
  claimAgain({ event: given, claim, renewed }: Model['accepted'][0]): Claim {
    const event = { ...given, ...renewed };
    const { platformId: asset, notificationId: id, segments, acceptedAt } = event;
    const { claim: claimed, last: by, segments: known } = this.knownOf(asset);
    if (this.facts.notifications.has(id) || by === id) return this.found(id);
    const never = { asset, acceptedAt, claim: 0, live: false, timed: false, failures: 0, body: event.body };
    if (this.facts.deleted) {
      this.facts.notifications.set(id, {
        ...never,
        state: 'cancelled',
        reason: 'client_deleted',
      });
      return { kind: 'ended', state: 'cancelled' };
    }
    if (claimed < claim || segments.some((one) => !known.has(one))) {
      const known = this.knownOf(asset);
      known.forgets = Math.max(known.forgets, renewed?.forgets ?? 0);
      return this.becomesOwed(event, false);
    }
    const ended = { state: 'not_needed', by: by || undefined, endedAt: this.now } as const;
    this.facts.notifications.set(id, { ...never, ...ended });
    this.facts.listed.set(id, acceptedAt);
    return { kind: 'not_needed' };
  }

  private updates(asset: string, isNotified: boolean): void {
    // Nobody asks for those of a client of notices.
    if (this.limits.isOfNotices) return;
    const known = this.knownOf(asset);
    const [at, last] = [this.now * 1000, known.updatedUs];
    known.updatedUs = last >= at && last < at + 10_000_000 ? last + 1 : at;
    known.isNotified = isNotified;
    this.untold.add(asset);
  }

  private found(id: string): Claim {
    const { state, asset } = this.facts.notifications.get(id) ?? {};
    if (asset === undefined) return { kind: 'ended', ...this.stopped() };
    if (state !== 'waiting') return { kind: 'ended', state, ...this.stopped() };
    const { claim } = this.knownOf(asset);
    return { kind: 'claimed', claim, again: true, supersedes: false, ...this.stopped() };
  }

  private stopped() {
    const { paused, held, state } = this.facts;
    if (paused || held) return { stopped: 'paused' as const };
    return state === 'suspended' ? { stopped: state } : {};
  }

  /** Of notices only those of the last claim are known. */
  private learn({ segments }: { segments: Set<string> }, news: string[], isClaim = news.length > 0): void {
    if (this.limits.isOfNotices && isClaim) segments.clear();
    for (const one of news) segments.add(one);
  }

  private becomesOwed(event: ArrivedEvent, timed: boolean): Claim {
    const { platformId: asset, notificationId: id, acceptedAt } = event;
    const known = this.knownOf(asset);
    const claim = ++known.claim;
    known.last = id;
    this.learn(
      known,
      event.segments.filter((one) => !known.segments.has(one)),
      this.limits.isOfNotices,
    );
    const supersedes = (this.facts.owed.get(asset)?.id ?? id) !== id;
    const live = this.owe(asset, id, event.priority === 'live', this.limits.quietMs);
    const owed = { asset, acceptedAt, claim, live, timed, failures: 0, body: event.body };
    this.facts.notifications.set(id, { ...owed, state: 'waiting' });
    this.facts.listed.set(id, acceptedAt);
    this.updates(asset, true);
    const at = Math.min(this.now, this.client.callersNow());
    this.facts.updates.push({ asset, id, at, step: this.steps, fate: 'open' });
    return { kind: 'claimed', claim, again: false, supersedes, ...this.stopped() };
  }

  /** Makes an asset owed. @returns whether it is live: because of this notification, or of the one that it supersedes */
  owe(asset: string, id: string, isLive: boolean, quietMs = 0): boolean {
    const { owed, holders } = this.facts;
    const older = owed.get(asset);
    const replaced = older ?? this.facts.failed.get(asset);
    if (replaced !== undefined && replaced.id !== id) this.end(replaced.id, { state: 'superseded', by: id });
    if (this.facts.failed.delete(asset)) this.setFates(asset, 'failed', 'open');
    const live = isLive || older?.live === true;
    const holder = holders.get(asset);
    const before = older?.since ?? this.now;
    const since = holder === undefined ? this.sinceSetRight(before) : Math.min(before, this.now);
    if (holder !== undefined && older?.id !== id) holder.isPast = true;
    let quiet: number | undefined;
    if (quietMs > 0 && older === undefined) {
      quiet = this.now + quietMs + 0.5;
    } else if (quietMs > 0 && older !== undefined) {
      if (holder !== undefined) quiet = older.quiet;
      else if (isQuiet(older.due)) quiet = older.due - (before - since);
    }
    const due = quiet ?? Math.min(since, this.now);
    owed.set(asset, { id, live, since, due, ...(holder && { quiet }) });
    if (holder !== undefined && holder.lease <= this.now) this.waitAgain(asset);
    return live;
  }

  forget(asset: string): void {
    const { failed, owed } = this.facts;
    this.untold.delete(asset);
    const known = this.knownOf(asset);
    const id = owed.get(asset)?.id ?? failed.get(asset)?.id;
    const mayHaveBeen = known.claim === 0 && (this.limits.keptDays ?? 0) > 0;
    if (known.segments.size > 0 || id !== undefined || mayHaveBeen)
      Object.assign(known, {
        segments: new Set(),
        claim: known.claim + 1,
        last: '',
        forgets: ((known.forgets || Math.floor(this.now / minute)) % 65_535) + 1,
        updatedUs: 0,
      });
    failed.delete(asset);
    if (id !== undefined) this.end(id, { state: 'cancelled', reason: 'asset_forgotten' });
    this.trimList();
  }

  /** The time of its segments is over. */
  age(asset: string): void {
    this.facts.known.delete(asset);
    this.untold.delete(asset);
  }

  dismiss(): void {
    const { failed } = this.facts;
    for (const { id } of this.failedYet()) {
      this.end(id, { state: 'cancelled', reason: 'dismissed' });
      failed.delete(this.notification(id).asset);
    }
    this.trimList();
  }

  /** Cancels what is owed, then removes the URL. */
  remove(): void {
    const { facts, now } = this;
    const reason = facts.deleted ? 'client_deleted' : 'url_removed';
    for (const { id } of [...facts.owed.values()]) this.end(id, { state: 'cancelled', reason });
    for (const [asset, { lease }] of facts.holders) if (lease <= now) facts.holders.delete(asset);
    if (facts.registered) this.newUrl();
    facts.registered = false;
    this.trimList();
  }

  /** Clears what is left of a deleted client. */
  clear(): void {
    this.facts.failed.clear();
    this.remove();
    this.facts.known.clear();
    this.untold.clear();
  }

  /** The asset is kept, so that it can be recovered, and a notice is owed; not of a notice. */
  private fail(id: string, reason: 'window' | 'expired'): void {
    const { facts, now: at } = this;
    const { asset } = this.notification(id);
    if (!this.limits.isOfNotices) {
      facts.failed.set(asset, { id, live: facts.owed.get(asset)?.live === true, at });
      facts.failedNotice = { reason, at, since: facts.failedNotice?.since ?? at };
    }
    this.end(id, { state: 'failed', reason });
  }

  /** Has an ended notification wait again. */
  reopen(id: string, isLive: boolean): void {
    const notification = this.notification(id);
    const reset = { by: undefined, reason: undefined, timed: false, failures: 0, failingSince: undefined };
    if (notification.state !== 'delivered') this.setFates(notification.asset, 'cancelled', 'open', id);
    if (this.limits.isOfNotices && notification.state === 'failed')
      this.setFates(notification.asset, 'failed', 'open', id);
    Object.assign(notification, reset, { state: 'waiting', again: true });
    this.owe(notification.asset, id, isLive);
  }

  /** The receiver has heard of each update that counts as arrived: under its own id, or by an attempt that began later. */
  private arrive(asset: string, upTo: string): void {
    const open = this.facts.updates.filter((one) => one.asset === asset && one.fate === 'open');
    this.setFates(asset, 'open', 'arrived', upTo);
    const heard = [...this.heard.values()].filter((one) => one.asset === asset);
    for (const { id, step, fate } of open)
      if (fate === 'arrived')
        assert.ok(this.heard.has(id) || heard.some((one) => one.step >= step), `nobody has heard of ${id}`);
  }

  /** Changes the fate of an asset's updates: of all, or of those up to that of a notification. */
  setFates(asset: string, from: Update['fate'], to: Update['fate'], upTo?: string): void {
    const { updates } = this.facts;
    const last = upTo === undefined ? updates.length : updates.findLastIndex(({ id }) => id === upTo);
    const { endedWith } = updates[last] ?? {};
    for (const one of updates.slice(0, last + 1))
      if (one.asset === asset && one.fate === from && (from !== 'cancelled' || one.endedWith === endedWith))
        one.fate = to;
  }

  end(id: string, as: Partial<Notification>): void {
    const notification = Object.assign(this.notification(id), as, { endedAt: this.now });
    const { asset, state } = notification;
    if (state === 'delivered') this.arrive(asset, id);
    if (state === 'failed') this.setFates(asset, 'open', 'failed');
    if (state === 'cancelled')
      // A failed notice is left to itself.
      for (const one of this.facts.updates)
        if (
          one.asset === asset &&
          (one.fate === 'open' || (one.fate === 'failed' && !this.limits.isOfNotices))
        )
          Object.assign(one, { fate: 'cancelled', endedWith: id });
    if (this.facts.owed.get(notification.asset)?.id === id) {
      this.facts.owed.delete(notification.asset);
      const holder = this.facts.holders.get(notification.asset);
      if (holder !== undefined) holder.isPast = true;
    }
  }

  /** Keeps the newest of the list that have ended, all that are owed or have failed, and for a while those that have just ended. */
  trimList(): void {
    const { listed, notifications, holders, failed } = this.facts;
    const failedIds = new Set([...failed.values()].map(({ id }) => id));
    const unlisted = [...notifications].filter(
      ([id, { state }]) => !listed.has(id) && (state === 'waiting' || failedIds.has(id)),
    );
    const kept = listedAtMost + this.waiting().length + holders.size + failed.size - unlisted.length;
    const rising = [...listed].sort(([a, at], [b, other]) => at - other || (a < b ? -1 : 1));
    for (const [id] of rising.slice(0, -kept)) {
      listed.delete(id);
      const { state = '', endedAt = 0 } = notifications.get(id) ?? {};
      const hasEnded = !['waiting', 'failed'].includes(state);
      if (hasEnded && endedAt < this.now - askedAgainMs) notifications.delete(id);
    }
  }

  /** Ends the hold of an asset: if it is owed it waits until then. */
  waitAgain(asset: string, due?: number): void {
    this.facts.holders.delete(asset);
    const owed = this.facts.owed.get(asset);
    if (owed === undefined) return;
    owed.due = Math.max(due ?? Math.min(owed.since, this.now), owed.quiet ?? 0);
    owed.quiet = undefined;
  }

  /** Ends the holds whose lease is over, and those of calls whose answers were lost. */
  endLeases(lost: readonly string[] = []): void {
    for (const [asset, holder] of this.facts.holders) {
      if (this.isOver(holder.lease) || lost.includes(holder.nonce)) this.waitAgain(asset);
    }
    const leases = [...this.facts.holders.values()].map(({ lease }) => lease);
    this.facts.leasesEnd = leases.length === 0 ? 0 : Math.min(...leases);
  }

  enter(state: Facts['state']): void {
    const { facts, now } = this;
    const outagesMs = this.clock() - this.acceptingClock();
    Object.assign(facts, { state, epoch: facts.epoch + 1, places: 0 });
    const isWell = {
      failures: 0,
      failingSince: undefined,
      failsSince: undefined,
      probeAt: 0,
      recoveredAt: now,
      outagesMs,
    };
    if (state === 'active') Object.assign(facts, isWell);
  }

  newUrl(): void {
    this.enter('active');
    Object.assign(this.facts, { notBefore: 0, lastSuccessAt: 0, urlEpoch: this.facts.epoch });
    this.heard.clear();
    this.dueAll();
    this.pull();
  }

  /** What is owed again is sent at the drain rate, with what waits already. */
  drain(): void {
    this.facts.recoveredAt = this.now + 1;
  }

  resume(): void {
    const { facts, now } = this;
    facts.notBefore = 0;
    if (facts.state === 'suspended') {
      const failsSince = facts.failsSince ?? facts.failingSince ?? 0;
      Object.assign(facts, { failures: 0, failingSince: undefined, failsSince });
      this.enter('failing');
    }
    if (facts.state === 'failing') Object.assign(facts, { probeStep: 1, probeAt: now });
  }

  /** Makes due whatever waits for another reason than a quiet period, or a failure of before: the next calls of `pull` do it, the latest first. */
  dueAll(pullFailedBefore = 0): void {
    if (this.waiting().length > 0) Object.assign(this.facts, { pullBelow: far, pullFailedBefore });
  }

  pull(): void {
    const { facts, now } = this;
    if (facts.pullBelow === 0) return;
    let hasMoved = false;
    const reached = [true, false].map((isLive) => {
      const later = this.waiting()
        .filter(({ live, due }) => live === isLive && due >= now + 1 && due <= facts.pullBelow)
        .sort((a, b) => b.due - a.due || (a.asset < b.asset ? 1 : -1))
        .slice(0, pulledAtOnce);
      for (const { asset, due } of later) {
        const owed = facts.owed.get(asset) ?? assert.fail(asset);
        const before = owed.since;
        owed.since = this.sinceSetRight(before);
        const { failingSince = Number.POSITIVE_INFINITY } = this.notification(owed.id);
        if (isQuiet(due)) owed.due = due - (before - owed.since);
        else if (facts.pullFailedBefore <= 0 || failingSince >= facts.pullFailedBefore) owed.due = owed.since;
        hasMoved ||= owed.due !== due;
      }
      return later.length === pulledAtOnce ? (later.at(-1)?.due ?? 0) : 0;
    });
    let below = Math.max(...reached);
    if (below === facts.pullBelow && !hasMoved) below -= 0.5;
    if (below === 0) {
      const ahead = this.waiting()
        .filter(({ since }) => since > now)
        .sort((a, b) => b.since - a.since || (a.asset < b.asset ? 1 : -1))
        .slice(0, pulledAtOnce);
      for (const { asset } of ahead) {
        const owed = facts.owed.get(asset) ?? assert.fail(asset);
        owed.since = this.sinceSetRight(owed.since);
      }
      if (ahead.length === pulledAtOnce) below = now + 1;
    }
    facts.pullBelow = below;
    if (below === 0) facts.pullFailedBefore = 0;
  }

  /** Redis' clock has stepped back since the last call that set right what was noted before. */
  get isTurned(): boolean {
    return this.facts.clockSeen > this.now + 1000 || this.witness.turned > this.facts.turned;
  }

  /** The clocks of Redis and of the callers agree: otherwise nothing ends for good. */
  get isSure(): boolean {
    return Math.abs(this.now - this.client.callersNow()) <= 5 * minute;
  }

  /** A process looks at Redis' clock. */
  seeClock(): void {
    const { witness, now } = this;
    if (witness.seen - now > 1000) witness.turned = Math.max(witness.turned + 1, witness.seen);
    witness.seen = now;
  }

  /** Since when what waits is owed: Redis' clock may have stepped back since, by at most so much. */
  sinceSetRight(since: number): number {
    const { facts, now } = this;
    return since <= now ? since : Math.max(Math.min(since - facts.setRightBy, now), now - day);
  }

  /** Redis' clock may have stepped back: what was noted before waits no longer than it would have from now on. */
  setRight(longestMs = leaseMs): void {
    const { facts, now } = this;
    if (this.isTurned) {
      const newest = Math.max(...this.waiting().map(({ since }) => since));
      const { probeAt, clockAt, notBefore, retryAfter } = facts;
      Object.assign(facts, {
        setRightBy: Math.max(newest - now, 0),
        probeAt: Math.min(probeAt, now),
        notBefore: Math.min(notBefore, now + retryAfter),
        recoveredAt: this.recoveredAt,
        clockAt: Math.min(clockAt, now),
        leasesEnd: 0,
      });
      for (const [asset, holder] of facts.holders) {
        holder.lease = Math.min(holder.lease, now + longestMs);
        const owed = facts.owed.get(asset);
        if (owed === undefined) continue;
        const by = Math.max(owed.since - now, 0);
        owed.since -= by;
        if (owed.quiet !== undefined) owed.quiet -= by;
      }
      // The plan of before is unknown.
      this.plannedAt = Number.POSITIVE_INFINITY;
      this.dueAll();
    } else if (now < facts.clockSeen + 1000 && now - this.client.callersNow() <= 1000) return;
    Object.assign(facts, { clockSeen: now, turned: Math.max(facts.turned, this.witness.turned) });
  }

  trimFailed(): void {
    const { keepFailedMs } = this.client.db.settings;
    for (const [asset, { at }] of this.facts.failed)
      if (this.isSure && at <= this.now - keepFailedMs) {
        this.facts.failed.delete(asset);
        this.setFates(asset, 'failed', 'past');
      }
    if (this.isSure) this.trimList();
  }

  isOver(lease: number): boolean {
    return lease <= this.now || lease > this.now + longestLeaseMs;
  }

  get recoveredAt(): number {
    const { facts, now } = this;
    return facts.recoveredAt > now + 1 ? now : facts.recoveredAt;
  }

  holds({ platformId, nonce }: Pick<Taken, 'platformId' | 'nonce'>): boolean {
    return this.facts.holders.get(platformId)?.nonce === nonce;
  }

  /** Settles a verdict. What the rules leave to chance is read from the answer. @returns the outcome */
  settle({ taken, name }: Judged, settled: Settled): Settled['result'] {
    const { platformId: asset, notificationId: id } = taken;
    const { facts, now } = this;
    const answer: Answer = answers[name];
    const { state: before, lastSuccessAt } = facts;
    const isHolder = this.holds(taken);
    const isThisUrl = taken.epoch >= facts.urlEpoch;
    const isOk = answer.ok && isThisUrl;
    if (isOk && !this.heard.has(id)) this.heard.set(id, { asset, step: this.beganIn.get(taken) ?? 0 });
    if (isOk || (isHolder && isThisUrl)) this.judge(taken, answer);
    assert.equal(settled.change?.to ?? before, facts.state);
    const notification = facts.notifications.get(id);
    if (settled.isTimed) assert.ok(isHolder && notification?.tried !== true, 'not the first attempt');
    if (isHolder && notification !== undefined) notification.tried = true;
    if (facts.owed.get(asset)?.id !== id || (isHolder && facts.holders.get(asset)?.isPast)) {
      if (isHolder) this.waitAgain(asset);
      const isSuperseded = notification?.state === 'superseded';
      if (isOk && isHolder && isSuperseded) this.end(id, { state: 'delivered', by: undefined });
      return answer.ok && notification?.state === 'delivered' ? 'delivered' : 'gone';
    }
    if (isOk && (isHolder || !notification?.again)) {
      if (isHolder || (facts.holders.get(asset)?.lease ?? 0) <= now) facts.holders.delete(asset);
      this.end(id, { state: 'delivered' });
      return 'delivered';
    }
    if (!isHolder || !isThisUrl) {
      if (isHolder) this.waitAgain(asset, now);
      return 'retry';
    }
    const own = this.notification(id);
    if ((own.failedEpoch ?? 0) < facts.urlEpoch) Object.assign(own, { failures: 0, failingSince: undefined });
    const failures = ++own.failures;
    if (failures === 1) own.failedEpoch = taken.epoch;
    if (this.isSure) own.failingSince ??= this.acceptingClock();
    assert.equal(settled.failures, failures);
    const { retryScheduleMs, retryWindowMs } = this.client.settings;
    const least = retryScheduleMs[Math.min(failures, retryScheduleMs.length) - 1] as number;
    const mayFail = this.isSure && facts.state === 'active' && lastSuccessAt > own.acceptedAt;
    const clock = this.acceptingClock();
    const leftMs = retryWindowMs - (clock - (own.failingSince ?? clock));
    if (settled.result === 'retry') assert.ok(!mayFail || least <= leftMs, 'it does not fail');
    if (settled.result === 'failed') {
      assert.ok(mayFail && 1.1 * least + 1 > leftMs, 'it fails too early');
      facts.holders.delete(asset);
      this.fail(id, 'window');
      return 'failed';
    }
    assertDrawn(settled.inMs, this.client.settings.retryScheduleMs, failures);
    this.waitAgain(asset, now + (settled.inMs ?? 0));
    return 'retry';
  }

  private judge({ epoch }: Taken, { ok, status, retryAfterMs = 0 }: Answer): void {
    const { facts, now } = this;
    if (retryAfterMs > 0 && now + retryAfterMs > facts.notBefore)
      Object.assign(facts, { notBefore: now + retryAfterMs, retryAfter: retryAfterMs });
    // Noted once a second.
    if (ok && Math.abs(now - facts.lastSuccessAt) >= 1000) facts.lastSuccessAt = now;
    if (epoch !== facts.epoch) return;
    const isProbe = facts.state === 'failing';
    if (ok) {
      if (facts.state === 'active') Object.assign(facts, { failures: 0, failingSince: undefined });
      if (!isProbe) {
        const more = facts.places + 1;
        if (facts.places > 0) facts.places = more < this.limits.maxInFlight ? more : 0;
        return;
      }
      const isKnown = (facts.failsSince ?? facts.failingSince) !== undefined;
      const began = isKnown ? this.acceptingClock() : 0;
      this.enter('active');
      facts.places = 1;
      this.dueAll(began);
      return;
    }
    facts.failures++;
    if (this.isSure) facts.failingSince ??= this.clock();
    if (facts.places > 1) facts.places = 1;
    const { failingAfter, suspendAfterMs, suspendMinimumAttempts } = this.client.settings;
    if (status === 410 && facts.state !== 'suspended') this.enter('suspended');
    else if (facts.state === 'active' && facts.failures >= failingAfter) {
      this.enter('failing');
      Object.assign(facts, { probeStep: 1, probeAt: Number.NaN });
    } else if (isProbe) {
      Object.assign(facts, { probeStep: facts.probeStep + 1, probeAt: Number.NaN });
      const { failingSince = Number.POSITIVE_INFINITY } = facts;
      const failsLong = this.isSure && this.clock() - failingSince >= suspendAfterMs;
      if (failsLong && facts.failures >= suspendMinimumAttempts) this.enter('suspended');
    }
  }

  /** @param at of the next probe, as the script drew it if this call has */
  readProbe(at: number): void {
    const { facts, now } = this;
    if (!Number.isNaN(facts.probeAt)) return;
    assertDrawn(at - now, this.client.settings.probeScheduleMs, facts.probeStep);
    facts.probeAt = at;
  }

  /** Whether these events take places one by one as they arrive, because nothing comes before them. */
  arriveApart(events: readonly ArrivedEvent[]): boolean {
    const distinct = new Set(events.map(({ platformId }) => platformId));
    const isOneLane = new Set(events.map(({ priority }) => priority)).size === 1;
    const isAnyHeld = [...distinct].some((asset) => this.facts.holders.has(asset));
    const isDistinct = distinct.size === events.length;
    const isFailing = this.facts.state === 'failing';
    if ((this.limits.quietMs ?? 0) > 0) return false;
    return this.waiting().length === 0 && isOneLane && isDistinct && !isAnyHeld && !isFailing;
  }

  /** Takes at most so many: those that the script took, if each is the next, or due at the same time as the next. */
  take(most: number, nonce: string, taken: readonly Taken[], arriveApart = false): void {
    let i = 0;
    for (const mayMakeRoom of arriveApart ? [false, true] : [true]) {
      if (mayMakeRoom) this.pull();
      const { holders, leasesEnd } = this.facts;
      if (mayMakeRoom && i < most && holders.size > 0 && this.isOver(leasesEnd)) this.endLeases();
      for (; i < most; i++) {
        const next = this.next();
        if (next === undefined) break;
        this.beginFlight(nonce, taken[i] ?? assert.fail(`${next.asset} is not taken`), next);
      }
    }
    assert.equal(taken.length, i, 'taken');
  }

  private beginFlight(nonce: string, taken: Taken, next: OwedAsset): void {
    const { facts, limits, now } = this;
    const { platformId: asset, notificationId: id, priority } = taken;
    const owed = facts.owed.get(asset);
    assert.ok(owed !== undefined && !facts.holders.has(asset), 'it waits');
    assert.deepEqual([owed.live, owed.due], [next.live, next.due]);
    assert.deepEqual([id, priority === 'live'], [owed.id, owed.live]);
    assert.deepEqual([taken.nonce, taken.epoch], [nonce, facts.epoch]);
    assert.equal(taken.body, this.notification(id).body);
    if (facts.state !== 'failing') {
      if (limits.perSecond > 0) facts.rateAt = this.rateTime() + 1000 / limits.perSecond;
      if (owed.due < this.recoveredAt) facts.drainAt = this.drainTime() + 1000 / limits.drainPerSecond;
    }
    owed.since = this.sinceSetRight(owed.since);
    this.beganIn.set(taken, this.steps);
    facts.holders.set(asset, { nonce, id, lease: now + leaseMs, isPast: false });
  }

  private next() {
    const { facts, now } = this;
    if (this.standing().reason !== 'due') return undefined;
    const waiting = this.waiting();
    if (facts.state === 'failing') {
      const [first] = waiting;
      return waiting.find(({ due, live }) => live && due === first?.due) ?? first;
    }
    const mayDrain = this.drainTime() <= now;
    const due = waiting.filter((one) => one.due <= now && (mayDrain || one.due >= this.recoveredAt));
    const [live, backfill] = [due.find((one) => one.live), due.find((one) => !one.live)];
    if (live !== undefined && backfill !== undefined) {
      facts.picks = (facts.picks + 1) % 4;
      return facts.picks === 0 ? backfill : live;
    }
    return live ?? (facts.holders.size < this.backfillBound() ? backfill : undefined);
  }

  private rateTime(): number {
    const { perSecond } = this.limits;
    return perSecond === 0 ? this.now : this.allowedAt(this.facts.rateAt, perSecond, 50);
  }

  private drainTime(): number {
    return this.allowedAt(this.facts.drainAt, this.limits.drainPerSecond, 100);
  }

  private allowedAt(at: number, perSecond: number, keptMs: number): number {
    const isPossible = at <= this.now + 1000 / perSecond + 1;
    return Math.max(isPossible ? at : this.now, this.now - keptMs);
  }

  /** After a recovery one place, and one more with each success. */
  private bound(): number {
    const { maxInFlight } = this.limits;
    return this.facts.places === 0 ? maxInFlight : Math.min(this.facts.places, maxInFlight);
  }

  private backfillBound(): number {
    const bound = this.bound();
    return bound === 1 ? 1 : bound - Math.ceil(bound / 4);
  }

  /** Says why nothing may be sent to the client; `due` if something may. */
  standing(): Why {
    const { facts, now } = this;
    if (!facts.registered || facts.deleted) return { reason: 'no_registration' };
    if (facts.paused || facts.held) return { reason: 'paused' };
    if (facts.state === 'suspended') return { reason: 'suspended' };
    if (facts.state === 'failing') {
      // One probe at a time: what is under way ends first.
      const leases = [...facts.holders.values()].map(({ lease }) => lease);
      const at = Math.max(facts.probeAt, ...leases);
      if (at > Math.max(now, facts.notBefore)) return { reason: 'failing', at };
    }
    if (facts.notBefore > now) return { reason: 'not_before', at: facts.notBefore };
    if (facts.holders.size >= this.bound()) return { reason: 'full' };
    const at = this.rateTime();
    return at > now ? { reason: 'rate', at: Math.ceil(at) } : { reason: 'due', at: now };
  }

  /** Says why one owed asset waits, as people and workflows are told. */
  reasonOf(asset: string): Why {
    const { lease } = this.facts.holders.get(asset) ?? {};
    if (lease !== undefined) return { reason: 'in_flight', at: this.isOver(lease) ? this.now : lease };
    const { facts, now } = this;
    const { due = 0, live } = facts.owed.get(asset) ?? {};
    const client = this.standing();
    const isPutOff = client.reason === 'not_before' && facts.state !== 'failing';
    const isOwn = isPutOff || ['due', 'full', 'rate'].includes(client.reason);
    if (isOwn && due > Math.max(now, client.at ?? 0))
      return { reason: isQuiet(due) ? 'quiet' : 'retry', at: due };
    if (client.reason !== 'due' || facts.state === 'failing') return client;
    if (!live && facts.holders.size >= this.backfillBound()) return { reason: 'full' };
    const drainAt = Math.ceil(this.drainTime());
    return due < this.recoveredAt && drainAt > now ? { reason: 'rate', at: drainAt } : client;
  }

  /** Says when something may be sent next. */
  nextTime(): Why {
    const { facts, now } = this;
    const waiting = this.waiting();
    if (waiting.length === 0) return { reason: 'in_flight' };
    const client = this.standing();
    if (client.reason !== 'due' || facts.state === 'failing') return client;
    const drainAt = Math.ceil(this.drainTime());
    const isBound = facts.holders.size >= this.backfillBound();
    const [first] = waiting
      .filter(({ live }) => live || !isBound)
      .map(({ due }): { reason: WaitReason; at: number } => {
        if (due < this.recoveredAt && drainAt > now) return { reason: 'rate', at: drainAt };
        if (due <= now) return { reason: 'due' as const, at: now };
        return { reason: isQuiet(due) ? ('quiet' as const) : ('retry' as const), at: Math.ceil(due) };
      })
      .sort((a, b) => a.at - b.at);
    return first ?? { reason: 'full' };
  }

  /** Plans catch-up. @returns the script's answer */
  plan(leastMs: number): Plan {
    const { facts, now } = this;
    const { retentionMs } = this.client.settings;
    this.setRight();
    this.endLeases();
    const old = this.isSure ? this.waiting().filter(({ since }) => since <= now - retentionMs) : [];
    for (const { id } of old) this.fail(id, 'expired');
    this.trimList();
    const owed = this.waiting().length + facts.holders.size;
    if (owed === 0) return { owed, replays: false, oldestAt: 0, inMs: 0, reason: 'due', expired: old.length };
    this.pull();
    const waiting = this.waiting();
    const oldestAt = waiting.length === 0 ? now : Math.min(...waiting.map(({ since }) => since));
    const { reason, at: next = oldestAt + retentionMs } = this.nextTime();
    // A hand that is there sends what is due within a lease.
    const at = reason === 'quiet' && next <= now + leaseMs ? next + leaseMs : next;
    const leases = [...facts.holders.values()].map(({ lease }) => lease);
    const inMs = Math.max(Math.min(at - now, ...leases.map((lease) => lease - now), 60 * minute), leastMs);
    return { owed, replays: false, oldestAt, inMs, reason, expired: old.length };
  }
}

/** @throws unless it is the step of the schedule, or up to a tenth longer */
function assertDrawn(inMs: number | undefined, scheduleMs: readonly number[], step: number): void {
  const promised = scheduleMs[Math.min(step, scheduleMs.length) - 1] as number;
  assert.ok(inMs !== undefined && inMs >= promised && inMs <= 1.1 * promised + 1, `${inMs}: ${promised}`);
}
