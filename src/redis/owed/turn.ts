/** Runs one turn of a client's attempts: settles those that have ended, then takes the next ones, in one script. */
import { assetSlot } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runTable } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import {
  type DeliverySchedule,
  type Settled,
  scheduleArguments,
  settleArguments,
  settledOf,
  type Verdict,
} from './settle.js';
import { type Bounds, fieldsOf, type Take, type TakeMode, takeOf } from './take.js';

/** An asset that the caller wants to send now. */
export interface Wanted {
  platformId: string;
  notificationId: string;
  mode: TakeMode;
  /** The claim's number, if the caller knows it. */
  claim?: number;
  /** Backfill whose turn has come: it may have any place of the client. */
  mayUseAll?: boolean;
}

/** The lease of an attempt. */
export interface Lease {
  platformId: string;
  token: string;
  /** The notification, if the attempt is a redelivery. */
  resent?: string;
}

export interface Turn {
  verdicts?: readonly Verdict[];
  /** Taken but not attempted, because of an own failure: due again after `inMs`, and nothing is counted. */
  givenBack?: readonly (Lease & { inMs: number })[];
  /** Leases to extend by their whole length. */
  extended?: readonly Lease[];
  wanted?: readonly Wanted[];
  /** New for each turn; a turn whose answer was lost is repeated with the same nonce. */
  nonce: string;
}

export interface Turned {
  settled: Settled[];
  /** Whether each extended lease was still held. */
  extended: boolean[];
  takes: Take[];
  /** True if something is owed that only catch-up will send: the caller wakes it. */
  wakeCatchUp: boolean;
}

const turn = script('turn');
/** Used if nothing is to be taken: it creates a third fewer functions. */
const settle = script('settle');

/** Settles, gives back, extends and takes in one script. @throws errors of Redis; repeating the same turn loses nothing */
export async function turnAttempts(
  db: Db,
  clientToken: string,
  { verdicts = [], givenBack = [], extended = [], wanted = [], nonce }: Turn,
  settings: Bounds & DeliverySchedule,
): Promise<Turned> {
  const bytes: Buffer[] = [];
  const q = {
    lease: settings.leaseMs,
    ...(verdicts.length > 0 && { verdicts: verdicts.map(settleArguments) }),
    ...(verdicts.some(({ ok }) => !ok) && { schedule: scheduleArguments(settings) }),
    ...(givenBack.length > 0 && {
      given_back: givenBack.map((lease) => [...leaseArguments(lease), lease.inMs]),
    }),
    ...(extended.length > 0 && { extended: extended.map(leaseArguments) }),
    ...(wanted.length > 0 && {
      bound: settings.maxInFlight,
      drain: settings.drainPerSecond,
      nonce,
      wanted: wanted.map((one) => {
        const { bucket, field } = assetSlot(one.platformId);
        bytes.push(field);
        return [one.platformId, one.notificationId, one.mode, one.claim ?? 0, bucket, one.mayUseAll === true];
      }),
    }),
  };
  const given = wanted.length > 0 ? turn : settle;
  const answer = await runTable(db, given, clientToken, q, bytes);
  const [settled, kept, takes = [], url = '', flat = [], wake = 0] = answer as [
    settled: unknown[],
    kept: number[],
    takes?: unknown[][],
    url?: string,
    secrets?: string[],
    wake?: number,
  ];
  const secrets = fieldsOf(flat);
  return {
    settled: settled.map(settledOf),
    extended: kept.map((one) => one === 1),
    takes: takes.map((take) => takeOf(take, url, secrets)),
    wakeCatchUp: wake === 1,
  };
}

function leaseArguments({ platformId, token, resent }: Lease): unknown[] {
  return [platformId, token, resent ?? false];
}
