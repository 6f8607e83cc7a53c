/** How notifications stand: what became of each, or why it is not sent now, and until when. */
import { assetSlot, idToBytes } from '../../ids.js';
import { inOrder } from '../connection/arguments.js';
import type { Db } from '../connection/db.js';
import { askScript } from '../connection/library.js';
import type { WaitReason } from './waitReasons.js';

export const notificationStates = [
  'waiting',
  'delivered',
  'superseded',
  'not_needed',
  'failed',
  'cancelled',
] as const;
export type NotificationState = (typeof notificationStates)[number];

/** The end of an attempt, as its record keeps it. */
export interface AttemptRecord {
  /** ms */
  at: number;
  url: string;
  milliseconds: number;
  status?: number;
  error?: string;
  detail?: string;
  remote_address?: string;
  response_excerpt?: string;
  remarks?: string[];
}

/** How a notification stands, or what became of it. It never has a URL's query. */
export type Outcome = Ended | Waiting;

export interface Ended {
  /** `unknown`: the notification ended elsewhere and its record is gone. */
  state: Exclude<NotificationState, 'waiting'> | 'unknown';
  /** HTTP status of the attempt that ended the notification. */
  status?: number;
  milliseconds?: number;
}

export interface Waiting<Reason = WaitReason | 'own_failure'> {
  state: 'waiting';
  /** Why the notification is not sent now; `own_failure`: this process could not make the attempt, or keys of the client are broken. */
  reason: Reason;
  /** When the notification may be sent, ms by this machine's clock; absent while that depends on a change from outside or on the end of an attempt. */
  at?: number;
  failures: number;
  status?: number;
  error?: string;
  detail?: string;
  /** Host of the failed attempt's URL: its path and query may hold a secret. */
  target?: string;
}

/** @param state of the record; absent if there is none @param last its last attempt, which a delivered or failed notification shows */
export function ended(state: string | undefined, last?: AttemptRecord): Ended {
  const known = (state || 'unknown') as Ended['state'];
  if (known !== 'delivered' && known !== 'failed') return { state: known };
  return { state: known, status: last?.status, milliseconds: last?.milliseconds };
}

/** @param inMs in how many ms the notification may be sent @param last its last attempt */
export function waiting<Reason extends Waiting['reason']>(
  reason: Reason,
  inMs: number | undefined,
  failures = 0,
  last?: AttemptRecord,
): Waiting<Reason> {
  const at = inMs === undefined ? undefined : Date.now() + inMs;
  const target = last && new URL(last.url).host;
  const { status, error, detail } = last ?? {};
  return { state: 'waiting', reason, at, failures, status, error, detail, target };
}

/** `lost`: Redis has lost the claim. */
export type Standing = Ended | Waiting<WaitReason> | 'lost';

export interface Asked {
  notificationId: string;
  platformId: string;
  /** The claim's number; without this number a lost claim is not recognised. */
  claim?: number;
}

/** The script's answer; `last`: JSON of the last attempt. */
type Answer =
  | { state: Ended['state'] | 'lost'; last?: string }
  | { state: 'waiting'; reason: WaitReason; inMs?: number; failures?: number; last?: string };

/** Notifications in one call, which blocks Redis for less than 1 ms. */
const perCall = 100;

export async function readStandings(db: Db, clientToken: string, asked: readonly Asked[]) {
  const { maxInFlight, drainPerSecond } = db.settings;
  const found: Standing[] = [];
  for (let i = 0; i < asked.length; i += perCall) {
    const args = asked.slice(i, i + perCall).flatMap(({ notificationId, platformId, claim = 0 }) => {
      const { bucket, field: slot } = assetSlot(platformId);
      const idBytes = idToBytes(notificationId);
      return inOrder('look', { id: notificationId, asset: platformId, bucket, slot, idBytes, claim });
    });
    const given = [maxInFlight, drainPerSecond, ...args];
    const answers = await askScript<Answer[]>(db, 'look', clientToken, given);
    found.push(...answers.map(parseStanding));
  }
  return found;
}

function parseStanding(answer: Answer): Standing {
  if (answer.state === 'lost') return 'lost';
  const last = answer.last === undefined ? undefined : (JSON.parse(answer.last) as AttemptRecord);
  if (answer.state !== 'waiting') return ended(answer.state, last);
  return waiting(answer.reason, answer.inMs, answer.failures, last);
}

export interface Plan {
  owed: number;
  /** A replay runs, which will owe more: catch-up goes on. */
  replays: boolean;
  /** Since when the oldest is owed; 0 if nothing is. */
  oldestAt: number;
  /** In how many ms to look again, and why not before. */
  inMs: number;
  reason: WaitReason;
  /** Notifications that this call ended as failed, because they had been owed for too long: 200 at most. */
  expired: number;
}

/**
 * Plans catch-up: ends what was owed for too long, and notes until when catch-up sleeps.
 * @param leastMs how long it sleeps at least
 */
export const planCatchUp = (db: Db, clientToken: string, leastMs: number) =>
  askScript<Plan>(db, 'plan', clientToken, inOrder('plan', { ...db.settings, leastMs }));
