/** What may be sent to a client, and when, in plain words: the scripts must say the same (test/redis/model.test.ts). */
import type { WaitReason } from '../../src/redis/owed/standing.js';

/** Of one owed asset that waits. */
export interface Waiting {
  asset: string;
  live: boolean;
  due: number;
}

/** What is known of a client. Times are ms. */
export interface Situation {
  registered: boolean;
  paused: boolean;
  state: 'active' | 'failing' | 'suspended';
  notBefore: number;
  probeAt: number;
  /** When the lease of the probe under way ends. */
  probeUntil: number;
  recoveredAt: number;
  rateAt: number;
  drainAt: number;
  picks: number;
  /** Of each attempt in flight. */
  leases: readonly number[];
  waiting: readonly Waiting[];
  bound: number;
  perSecond: number;
  drainPerSecond: number;
}

/** Without a time it ends by a change from outside, or with an attempt. */
export interface Why {
  reason: WaitReason;
  at?: number;
}

const byDue = (a: Waiting, b: Waiting) => a.due - b.due;
const placeAfter = (at: number, perSecond: number, keptMs: number, now: number) =>
  Math.max(Math.min(at, now + 1000 / perSecond), now - keptMs);
const ratePlace = (s: Situation, now: number) =>
  s.perSecond === 0 ? now : placeAfter(s.rateAt, s.perSecond, 50, now);
const drainPlace = (s: Situation, now: number) => placeAfter(s.drainAt, s.drainPerSecond, 100, now);
const backfillBound = ({ bound }: Situation) =>
  bound === 1 ? 1 : bound - Math.max(1, Math.floor(bound / 4));

/** Why nothing may be sent to the client; `due` if something may. */
export function standing(s: Situation, now: number): Why {
  if (!s.registered) return { reason: 'no_registration' };
  if (s.paused) return { reason: 'paused' };
  if (s.state === 'suspended') return { reason: 'suspended' };
  if (s.state === 'failing') {
    const at = Math.max(s.probeAt, s.notBefore, s.probeUntil);
    if (at > now) return { reason: 'failing', at };
  } else if (s.notBefore > now) return { reason: 'not_before', at: s.notBefore };
  if (s.leases.length >= s.bound) return { reason: 'full' };
  const at = ratePlace(s, now);
  return at > now ? { reason: 'rate', at: Math.ceil(at) } : { reason: 'due', at: now };
}

/** Why one waiting asset waits, as people and workflows are told. */
export function reasonOf(s: Situation, { due }: Waiting, now: number): Why {
  const client = standing(s, now);
  const isOwn = ['due', 'full', 'rate', 'not_before'].includes(client.reason);
  return isOwn && due > Math.max(now, client.at ?? 0) ? { reason: 'retry', at: due } : client;
}

/** When something may be sent next. */
export function nextTime(s: Situation, now: number): Why {
  if (s.waiting.length === 0) return { reason: 'in_flight' };
  const client = standing(s, now);
  if (client.reason !== 'due' || s.state === 'failing') return client;
  const drainAt = Math.ceil(drainPlace(s, now));
  const times = s.waiting.flatMap((one): Why[] => {
    const isBound = !one.live && s.leases.length >= backfillBound(s);
    if (isBound) return [];
    if (one.due < s.recoveredAt && drainAt > now) return [{ reason: 'rate', at: drainAt }];
    return [one.due > now ? { reason: 'retry', at: one.due } : { reason: 'due', at: now }];
  });
  const first = times.sort((a, b) => (a.at as number) - (b.at as number))[0];
  return first ?? { reason: 'full' };
}

/** The assets that a call takes, in their order; of assets due at the same time it may take any. */
export function taken(s: Situation, now: number, most: number): Waiting[] {
  if (most === 0 || standing(s, now).reason !== 'due') return [];
  const waiting = [...s.waiting].sort(byDue);
  if (s.state === 'failing') return [waiting.find(({ live }) => live) ?? waiting[0]].filter((one) => !!one);
  const left = { ...s, waiting, leases: [...s.leases] };
  const found: Waiting[] = [];
  while (found.length < most && left.leases.length < s.bound && ratePlace(left, now) <= now) {
    const mayDrain = drainPlace(left, now) <= now;
    const due = left.waiting.filter((one) => one.due <= now && (mayDrain || one.due >= s.recoveredAt));
    let [live, backfill] = [due.find((one) => one.live), due.find((one) => !one.live)];
    if (live !== undefined && backfill !== undefined) {
      left.picks = (left.picks + 1) % 4;
      if (left.picks === 0) live = undefined;
    } else if (left.leases.length >= backfillBound(s)) backfill = undefined;
    const next = live ?? backfill;
    if (next === undefined) break;
    if (s.perSecond > 0) left.rateAt = ratePlace(left, now) + 1000 / s.perSecond;
    if (next.due < s.recoveredAt) left.drainAt = drainPlace(left, now) + 1000 / s.drainPerSecond;
    left.leases.push(now);
    left.waiting.splice(left.waiting.indexOf(next), 1);
    found.push(next);
  }
  return found;
}
