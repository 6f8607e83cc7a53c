/** Settles attempts and takes the next ones of a client, in one script: the one gate before every POST. */
import { randomBytes } from 'node:crypto';
import type { DeliverySettings } from '../../config.js';
import type { Db } from '../connection/db.js';
import { runScript, type ScriptArgument } from '../connection/library.js';
import { type AttemptRecord, fieldsOf, unlessNone, type WaitReason } from './standing.js';

const ownName = randomBytes(6).toString('base64url');
let calls = 0;

/** Identifies one call of a script, and the attempts that it takes, over all processes. */
export function newNonce(): string {
  return `${ownName}${(calls++).toString(36)}`;
}

/** The fewest failed attempts since its last success after which an endpoint is suspended (contract, section 3). */
export const suspendMinimumAttempts = 20;

/** An attempt that may be made, under a lease. */
export interface Taken {
  platformId: string;
  notificationId: string;
  priority: 'live' | 'backfill';
  /** Identifies this attempt among all attempts of its asset. */
  token: string;
  generation: number;
  epoch: number;
  url: string;
  /** Fields of the client's signing-secrets hash, as stored. */
  secrets: Record<string, string>;
  /** The traceparent of its event. */
  trace?: string;
  /** The body of a notice; undefined for an asset-update. */
  body?: string;
}

/** The attempts that a call has taken, and the client's next time. */
export interface Takes {
  taken: Taken[];
  /** In how many ms something may be sent next; undefined if nothing waits, or for a change or an attempt's end. */
  nextInMs?: number;
  reason: WaitReason;
  /** True if catch-up must be woken. */
  wakeCatchUp: boolean;
}

/** The end of an attempt. */
export interface Verdict {
  taken: Taken;
  isOk: boolean;
  retryAfterMs?: number;
  attempt: AttemptRecord;
}

/** An endpoint's state without a pause that may hide it. */
export type EndpointHealth = 'active' | 'failing' | 'suspended';

export interface Settled {
  outcome: 'delivered' | 'retry' | 'failed' | 'gone';
  /** In how many ms the notification is due again; absent if it is no longer owed. */
  inMs?: number;
  /** Failed attempts of this notification so far. */
  failures: number;
  /** The change of the endpoint's state by this verdict. */
  change?: { from: EndpointHealth; to: EndpointHealth; why: string };
  /** When its event was accepted, ms; absent if its record is gone. */
  acceptedAt?: number;
  /** No attempt of this notification has ended before. */
  isFirst: boolean;
  /** The state before this verdict. Absent if the notification was owed or has no record. */
  state?: string;
}

export interface Turn {
  /** New for each turn; a turn whose answer was lost is repeated with the same nonce. */
  nonce: string;
  /** How many assets to take at most. */
  most: number;
  /** A call with this nonce may have run before: what it has taken is found. */
  isRepeat?: boolean;
  verdicts?: readonly Verdict[];
  /** Attempts that waited before their POST. The turn says whether each may still be sent, and renews the lease. */
  looks?: readonly Taken[];
  /** Taken but not attempted, because of an own failure: due again after `inMs`, and nothing is counted. */
  givenBack?: readonly { taken: Taken; inMs: number }[];
}

export interface Turned extends Takes {
  settled: Settled[];
  /** Whether each of `looks` may still be sent. */
  maySend: boolean[];
}

/**
 * Runs one turn. @throws errors of Redis; repeating the same turn loses nothing
 * @param name `settle` also writes while Redis has no memory left; then `most` must be 0
 */
export async function runTurn(
  db: Db,
  clientToken: string,
  { nonce, most, isRepeat = false, verdicts = [], looks = [], givenBack = [] }: Turn,
  settings: DeliverySettings,
  name: 'turn' | 'settle' = 'turn',
): Promise<Turned> {
  const args: ScriptArgument[] = [
    ...boundsArguments(settings, nonce, most),
    isRepeat ? 1 : 0,
    verdicts.some(({ isOk }) => !isOk) ? scheduleArgument(settings) : '',
    verdicts.length,
  ];
  for (const verdict of verdicts) args.push(...verdictArguments(verdict));
  args.push(looks.length);
  for (const { platformId, token, generation } of looks) args.push(platformId, token, generation);
  for (const { taken, inMs } of givenBack) args.push(taken.platformId, taken.token, Math.ceil(inMs));
  const answer = (await runScript(db, name, clientToken, args)) as [
    ...TakesAnswer,
    settled: SettledAnswer[],
    looks: number[],
  ];
  return {
    ...takesOf(answer, nonce),
    settled: answer[8].map(settledOf),
    maySend: answer[9].map((one) => one === 1),
  };
}

/** Returns the arguments that `read_bounds` of take.lua reads, and how many to take. */
export function boundsArguments(
  { leaseMs, maxInFlight, drainPerSecond }: DeliverySettings,
  nonce: string,
  most: number,
): ScriptArgument[] {
  return [leaseMs, maxInFlight, drainPerSecond, nonce, most];
}

/** The answer of `answer_taken` in take.lua. */
export type TakesAnswer = [
  ...[url: string, secrets: string[], generation: number, epoch: number],
  ...[nextInMs: number, reason: WaitReason, wake: number],
  taken: [asset: string, id: string, lane: 'L' | 'B', trace: string | null, body: string | null][],
];

export function takesOf(answer: readonly [...TakesAnswer, ...unknown[]], token: string): Takes {
  const [url, secrets, generation, epoch, nextInMs, reason, wake, taken] = answer;
  const shared = { token, generation, epoch, url, secrets: taken.length > 0 ? fieldsOf(secrets) : {} };
  return {
    taken: taken.map(([platformId, notificationId, lane, trace, body]) => ({
      ...shared,
      platformId,
      notificationId,
      priority: lane === 'L' ? 'live' : 'backfill',
      trace: trace ?? undefined,
      body: body ?? undefined,
    })),
    nextInMs: unlessNone(nextInMs),
    reason,
    wakeCatchUp: wake === 1,
  };
}

function verdictArguments({ taken, isOk, retryAfterMs = 0, attempt }: Verdict): ScriptArgument[] {
  return [
    taken.platformId,
    taken.notificationId,
    taken.token,
    taken.generation,
    taken.epoch,
    isOk ? 1 : 0,
    attempt.status ?? '',
    attempt.error ?? '',
    retryAfterMs,
    JSON.stringify(attempt),
    isOk ? 0 : Math.random(),
  ];
}

function scheduleArgument(schedule: DeliverySettings): string {
  return JSON.stringify({
    retry: schedule.retryScheduleMs,
    probe: schedule.probeScheduleMs,
    window: schedule.retryWindowMs,
    failing_after: schedule.failingAfter,
    suspend_after: schedule.suspendAfterMs,
    suspend_attempts: suspendMinimumAttempts,
  });
}

type SettledAnswer = [
  ...[outcome: Settled['outcome'], inMs: number, failures: number],
  ...[to: EndpointHealth | '', from: EndpointHealth, why: string],
  ...[acceptedAt: string | null, isFirst: number, state: string | null],
];

function settledOf([
  outcome,
  inMs,
  failures,
  to,
  from,
  why,
  acceptedAt,
  isFirst,
  state,
]: SettledAnswer): Settled {
  return {
    outcome,
    inMs: unlessNone(inMs),
    failures,
    change: to === '' ? undefined : { from, to, why },
    acceptedAt: acceptedAt === null ? undefined : Number(acceptedAt),
    isFirst: isFirst === 1,
    state: state ?? undefined,
  };
}
