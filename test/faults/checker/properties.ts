/** What docs/contract.md promises, judged by what callers and receivers have seen. */
import { mapInPages } from '../../../src/promises.js';
import { until } from '../../receiver.js';
import { callApi } from '../../service.js';
import type { Act, Asset, Facts, Post, Site } from './facts.js';

/** Where a property may ask how things stand. */
export interface Door {
  url: string;
  token: string;
}

/** Looks at one site when everything that was asked for has ended. @returns what the contract does not allow */
export type Property = (facts: Facts, site: Site, door: Door) => string[] | Promise<string[]>;

/** What was taken before an answer to somebody else may still go out so much later, on a busy machine. */
const graceMs = 2500;
/** The lease of an attempt: longer than that a stopped process does not write what it had taken. */
const leaseMs = 7000;
/** A handshake takes so long at most. */
export const handshakeMs = 400;
/** An answer that takes longer may be too late for the sender (ATTEMPT_TIMEOUT_SECONDS). */
const surelyInTimeMs = 1600 - handshakeMs;
const mostInFlight = 16;
/** 10,000 in production, which no round reaches. */
export const listedAtMost = 40;
/** After these the end of an attempt was perhaps not noted, or its lease has ended. */
const breaks = ['kill', 'killRedis', 'stop', 'step', 'leap', 'busy'] as const;
/** The receiver may note the end of an attempt so much later than its sender. */
const notedAfterMs = 500;

export const properties: Record<string, Property> = {
  'what was promised arrives': (_, site) =>
    each(site, (asset) => {
      const wanted = wantedOf(asset);
      return wanted && !isMet(asset, wanted) ? [`${wanted.id} was not delivered`] : [];
    }),

  'a POST is of what is owed': (facts, site) =>
    each(site, (asset) =>
      postsOf(asset).flatMap((post) => {
        const why = whyNotOwed(facts, asset, post);
        return why === undefined ? [] : [`${post.id} was POSTed: ${why}`];
      }),
    ),

  'a POST goes to a registered URL that is not paused': (facts, site) =>
    site.posts.flatMap((post) => {
      const states = site.statesIn({ from: post.at - graceOf(facts, post.at), to: post.at });
      if (!states.some(({ url }) => url === post.url)) return [`${post.id} was POSTed to ${post.url}`];
      return states.some(({ isPaused }) => !isPaused) ? [] : [`${post.id} was POSTed during a pause`];
    }),

  'the first event of an asset that is not owed waits for the quiet period': (facts, site) =>
    each(site, (asset) =>
      asset.acts.flatMap((act, i) => (act.kind === 'event' ? tooSoon(facts, asset, act, i) : [])),
    ),

  'a site has at most 16 attempts in flight': (facts, site) => {
    const crowded = site.posts.find(({ at }) => {
      if (facts.disturbed({ from: at - 3 * leaseMs, to: at }, ...breaks)) return false;
      const open = site.posts.filter(
        (other) => other.at <= at && (other.endedAt ?? Infinity) > at + notedAfterMs,
      );
      return open.length > mostInFlight;
    });
    return crowded ? [`there were more when ${crowded.id} was POSTed`] : [];
  },

  'delivered_until is not after what has not arrived': (_, site) =>
    each(site, (asset) =>
      site.watermarks.flatMap(({ until: said, at }) => {
        const early = asset.acts.find(
          (act, i) => isOfEvent(act) && act.to < said && !isSettled(asset, i, at),
        );
        return early && 'id' in early ? [`${early.id} has not arrived, but all until ${said}`] : [];
      }),
    ),

  'the API tells how it ended': async (facts, site, door) => {
    const events = [...site.assets.values()].flatMap((asset) =>
      asset.acts.flatMap((act) => (isOfEvent(act) ? { asset, event: act } : [])),
    );
    const said = await mapInPages(events, 8, async ({ asset, event }) => {
      const wrong = await wrongEnd(facts, asset, event, door);
      return wrong === undefined ? [] : [`${asset.platformId}: ${event.id} is ${wrong}: ${tell(asset)}`];
    });
    return said.flat();
  },
};

type EventAct = Act & { kind: 'event' };
const isOfEvent = (act: Act | undefined): act is EventAct => act?.kind === 'event' && !act.isRepeat;

/**
 * Returns whether the record of a notification of this round is kept for certain: it is owed, or is one of the newest that have ended. Those
 * that are owed push none of these out.
 */
export function isKept(facts: Facts, asset: Asset, event: EventAct): boolean {
  const { site, acts } = asset;
  // A clock that was ahead has removed records (docs/operations/disaster.md), and dated those that a replay wrote anew.
  if (facts.disturbed({ from: 0, to: Date.now() }, 'step', 'leap')) return false;
  if (acts.some(({ kind, to }) => kind === 'forget' && to >= event.from)) return false;
  let mayHaveEnded = 0;
  for (const { isBusy, acts } of site.assets.values()) {
    mayHaveEnded += acts.filter((act) => isOfEvent(act) && act !== event && act.to >= event.from).length;
    const last = acts.at(-1);
    // Its event may have been accepted and not answered yet.
    if (isBusy) mayHaveEnded++;
    else if (
      isOfEvent(last) &&
      last !== event &&
      last.to >= event.from &&
      !site.posts.some(({ id }) => id === last.id) &&
      // A reset cancels what waits.
      site.statesIn({ from: last.from, to: Date.now() }).every(({ url }) => url !== undefined)
    )
      mayHaveEnded--;
  }
  return mayHaveEnded < listedAtMost;
}

/** Returns the oldest notification of this round that is kept for certain. */
export function oldestKept(facts: Facts, site: Site): { asset: Asset; event: EventAct } | undefined {
  const all = [...site.assets.values()].flatMap((asset) =>
    asset.acts.flatMap((act) => (isOfEvent(act) && isKept(facts, asset, act) ? { asset, event: act } : [])),
  );
  return all.sort((a, b) => a.event.from - b.event.from)[0];
}

/** Returns whether by then the event of this act, or a newer one of its asset, was answered 2xx or may have been taken back. */
function isSettled(asset: Asset, index: number, at: number): boolean {
  const since = asset.acts.slice(index);
  const ids = new Set(since.map((act) => ('id' in act ? act.id : undefined)));
  return (
    since.some(({ kind, from }) => (kind === 'forget' || kind === 'cancel') && from <= at) ||
    postsOf(asset).some(({ id, isOk, endedAt = Infinity }) => isOk && ids.has(id) && endedAt <= at)
  );
}

const each = (site: Site, look: (asset: Asset) => string[]): string[] =>
  [...site.assets.values()].flatMap((asset) =>
    look(asset).map((wrong) => `${asset.platformId}: ${wrong}: ${tell(asset)}`),
  );

/** Returns what happened to an asset, for a person: seconds since its first act. */
export function tell(asset: Asset): string {
  const from = asset.acts[0]?.from ?? 0;
  const seconds = (at = Infinity) => ((at - from) / 1000).toFixed(2);
  const acts = asset.acts.map((act) => {
    const id = 'id' in act ? ` ${act.id.slice(0, 8)}` : '';
    const again = 'isRepeat' in act && act.isRepeat ? ' (again)' : '';
    return { at: act.from, says: `${act.kind}${id}${again} ${seconds(act.from)}-${seconds(act.to)}` };
  });
  const posts = postsOf(asset).map(({ id, at, endedAt, isOk }) => ({
    at,
    says: `POST ${id.slice(0, 8)} ${seconds(at)}-${seconds(endedAt)} ${isOk ? '2xx' : 'failed'}`,
  }));
  return [...acts, ...posts]
    .sort((a, b) => a.at - b.at)
    .map(({ says }) => says)
    .join('; ');
}

const postsOf = ({ site, platformId }: Asset): Post[] =>
  site.posts.filter((post) => post.platformId === platformId);

const graceOf = (facts: Facts, at: number): number =>
  facts.disturbed({ from: at - 3 * leaseMs, to: at }, 'stop', 'busy') ? graceMs + leaseMs : graceMs;

interface Wanted {
  id: string;
  begunFrom: number;
  answeredFrom: number;
}

/** Returns what the acts up to then have promised last, if nothing took it back. */
function wantedOf({ acts }: Asset, upTo = acts.length): Wanted | undefined {
  let wanted: Wanted | undefined;
  let takenBackAt = 0;
  for (const act of acts.slice(0, upTo)) {
    if (act.kind === 'forget' || act.kind === 'cancel') {
      wanted = undefined;
      takenBackAt = act.from;
    } else if (act.kind === 'event') {
      if (!act.isRepeat) wanted = { id: act.id, begunFrom: act.from, answeredFrom: 0 };
    } else if (act.kind === 'redeliver') {
      // An attempt that is answered just then counts.
      wanted = { id: act.id, begunFrom: takenBackAt, answeredFrom: act.from - 3 * leaseMs };
    }
  }
  return wanted;
}

function metBy(asset: Asset, { id, begunFrom, answeredFrom }: Wanted): Post | undefined {
  return postsOf(asset).find(
    (post) => post.isOk && post.id === id && post.at >= begunFrom && (post.endedAt ?? 0) >= answeredFrom,
  );
}

export const isMet = (asset: Asset, wanted = wantedOf(asset)): boolean =>
  wanted === undefined || metBy(asset, wanted) !== undefined;

/** Tries every state in which the asset may have been at the POST, since acts overlap with it. */
function whyNotOwed(facts: Facts, asset: Asset, post: Post): string | undefined {
  const before = post.at - graceOf(facts, post.at);
  let owed: { id: string; from: number } | undefined;
  let why = 'nothing was asked for';
  const allows = () => {
    if (owed === undefined) return false;
    if (owed.id !== post.id) why = `superseded by ${owed.id}`;
    else if (wasDelivered(facts, asset, post, owed.from)) why = 'delivered before';
    else return true;
    return false;
  };
  let sure = true;
  for (const act of asset.acts) {
    if (act.from > post.at) break;
    if (sure && act.to >= before) {
      sure = false;
      if (allows()) return undefined;
    }
    if (act.kind === 'forget' || act.kind === 'cancel') {
      owed = undefined;
      why = act.kind;
    } else if (act.kind === 'replay') {
      if (!sure) return undefined;
      owed = { id: post.id, from: act.from };
    } else if (act.kind === 'redeliver')
      owed = { id: act.id, from: act.tries.findLast((at) => at <= post.at) ?? act.from };
    else if (act.kind === 'event' && !act.isRepeat) owed = { id: act.id, from: act.from };
    if (!sure && allows()) return undefined;
  }
  return sure && allows() ? undefined : why;
}

function wasDelivered(facts: Facts, asset: Asset, post: Post, owedFrom: number): boolean {
  return postsOf(asset).some(
    ({ isOk, id, url, at, endedAt = Infinity }) =>
      isOk &&
      id === post.id &&
      // What a former URL answered does not count.
      url === post.url &&
      at >= owedFrom &&
      endedAt < post.at - graceMs &&
      isInTime({ at, endedAt }) &&
      !facts.disturbed({ from: at - leaseMs, to: endedAt + graceMs }, ...breaks),
  );
}

const isInTime = ({ at, endedAt = Infinity }: Pick<Post, 'at' | 'endedAt'>): boolean =>
  endedAt - at < surelyInTimeMs;

function tooSoon(facts: Facts, asset: Asset, event: Act & { kind: 'event' }, index: number): string[] {
  if (event.isRepeat || !isSurelyOver(facts, asset, event.from, index)) return [];
  const next = asset.acts.slice(index + 1);
  const other = next.find(({ kind }) => kind !== 'event')?.from ?? Infinity;
  const ids = new Set([event, ...next].map((act) => ('id' in act ? act.id : undefined)));
  const first = postsOf(asset).find(({ id, at }) => at > event.from && ids.has(id));
  if (first === undefined || first.at >= other) return [];
  const { site } = asset;
  // A change of the period applies to the next event.
  const dueAt = Math.min(
    ...[event, ...next.filter(({ from }) => from <= first.at)].map(
      (one) => one.from + 1000 * Math.min(...site.statesIn(one).map(({ quietSeconds }) => quietSeconds)),
    ),
  );
  // A probe of a failing endpoint may be sent sooner, and a step of the clock makes due what was put off.
  const isExcused =
    site.failuresInARow(first.at) >= 4 ||
    facts.disturbed({ from: event.from - 30_000, to: first.at }, 'step', 'leap');
  return first.at >= dueAt || isExcused ? [] : [`${first.id} was POSTed ${dueAt - first.at} ms too soon`];
}

/** Returns whether nothing of the asset was owed when this act began. */
function isSurelyOver(facts: Facts, asset: Asset, at: number, index: number): boolean {
  const before = asset.acts.slice(0, index);
  if (before.some(({ kind }) => kind === 'replay' || kind === 'redeliver')) return false;
  const wanted = wantedOf(asset, index);
  if (wanted === undefined) return true;
  const met = metBy(asset, wanted);
  // What a former URL answered does not count: another attempt may have followed.
  const isBusy = postsOf(asset).some((post) => post.at < at && (post.endedAt ?? Infinity) + graceMs > at);
  // A redeliver of what was superseded may have answered it only later.
  if (met === undefined || met.at >= at || !isInTime(met) || isBusy) return false;
  const { at: from, endedAt = Infinity } = met;
  if (asset.site.statesIn({ from, to: endedAt + graceMs }).some(({ url }) => url !== met.url)) return false;
  return !facts.disturbed({ from: met.at - leaseMs, to: at }, ...breaks);
}

async function wrongEnd(
  facts: Facts,
  asset: Asset,
  event: EventAct,
  { url, token }: Door,
): Promise<string | undefined> {
  const { id } = event;
  const path = `${url}/notifications/${id}?client_token=${asset.site.clientToken}`;
  const { status, body } = await until('Redis answers in time', async () => {
    const answer = await callApi(token, 'GET', path);
    return answer.status !== 503 && answer;
  });
  const takenBack = asset.acts.filter(({ kind }) => kind === 'forget' || kind === 'cancel');
  if (status === 404 && !isKept(facts, asset, event)) return undefined;
  if (status !== 200) return `answered with ${status}`;
  const { state, superseded_by: by } = body;
  if (state !== 'delivered' && wantedOf(asset)?.id === id) return `${state}`;
  switch (state) {
    case 'delivered':
      return postsOf(asset).some((post) => post.id === id && post.isOk) ? undefined : 'delivered, unseen';
    case 'superseded':
      return asset.ids.has(String(by)) ? undefined : `superseded by ${by}`;
    case 'cancelled':
      return takenBack.length > 0 ? undefined : 'cancelled by nobody';
    default:
      return `${state}`;
  }
}
