/** The attempts of one client, a turn at a time: settles what has ended, then takes what comes next, in one step. */
import { assetSlot } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runTable, tableScript } from '../connection/script.js';
import { endpointLua } from '../records/endpointLua.js';
import { knownLua } from './knownLua.js';
import { notificationLua } from './notificationLua.js';
import {
  type DeliverySchedule,
  type Settled,
  scheduleArguments,
  settleArguments,
  settledOf,
  settleLua,
  type Verdict,
} from './settle.js';
import { type Bounds, fieldsOf, type Take, type TakeMode, takeLua, takeOf } from './take.js';

/** An asset that somebody wants to send now. */
export interface Wanted {
  platformId: string;
  notificationId: string;
  mode: TakeMode;
  /** The claim's number where the asker knows it. */
  claim?: number;
  /** Backfill whose turn it is: it may have any place of the client's. */
  share?: boolean;
}

/** What an attempt holds. */
export interface Lease {
  platformId: string;
  token: string;
}

export interface Turn {
  verdicts?: readonly Verdict[];
  /** Taken and never attempted, for a reason of this process's own: due again after `inMs`, and counted as nothing. */
  givenBack?: readonly (Lease & { inMs: number })[];
  /** Leases that go on for as long again. */
  extended?: readonly Lease[];
  wanted?: readonly Wanted[];
  /** New for each turn; one whose answer was lost is repeated with the same. */
  nonce: string;
}

export interface Turned {
  settled: Settled[];
  /** Of each extended lease, whether it was still held. */
  extended: boolean[];
  takes: Take[];
  /** Something is owed that nobody will send before catch-up has been woken. */
  wakeCatchUp: boolean;
}

/**
 * q: lease, bound, drain, nonce (see `takeLua`), schedule, verdicts (see `settleLua`), given_back: lists of asset, token,
 * in ms; extended: lists of asset, token; wanted: lists of asset, id, mode, claim (0: not known), bucket, share. What is
 * empty is left out.
 * Bytes of each wanted: its asset's field in the bucket (8).
 *
 * Answers {settled, extended, takes, url, signing secrets, wake catch-up}, the last four where something is wanted.
 */
const turnLua = (takes: string, answer: string) => `
local settled, extended, takes, has_taken = {}, {}, {}, false
local done, failure = pcall(function()
  for i, v in ipairs(q.verdicts or {}) do settled[i] = settle_attempt(v) end
  for _, g in ipairs(q.given_back or {}) do give_back(g[1], g[2], now + g[3]) end
  for i, x in ipairs(q.extended or {}) do extended[i] = extend_lease(x[1], x[2]) end
  ${takes}
end)
-- Whatever happens above: what is owed without a time at which it is due would wait for ever.
write_waiting()
if not done then error(failure) end
return ${answer}
`;

const turn = tableScript(
  turnLua(
    `for i, w in ipairs(q.wanted) do
    takes[i] = take_attempt(w[1], w[2], w[3], w[4], w[5], bytes(8), w[6])
    has_taken = has_taken or takes[i][1] == 'taken'
  end`,
    "{settled, extended, takes, has_taken and common().url or '', has_taken and signing_secrets() or {}, needs_wake}",
  ),
  notificationLua,
  endpointLua,
  knownLua,
  settleLua,
  takeLua,
);

/** Where nothing is wanted: a third of the functions need not be made. */
const turnWithoutTakes = tableScript(
  turnLua('', '{settled, extended}'),
  notificationLua,
  endpointLua,
  settleLua,
);

/** @throws what Redis throws; nothing is lost by doing all of it again */
export async function turnAttempts(
  db: Db,
  clientToken: string,
  { verdicts = [], givenBack = [], extended = [], wanted = [], nonce }: Turn,
  bounds: Bounds,
  schedule: DeliverySchedule,
): Promise<Turned> {
  const bytes: Buffer[] = [];
  const q = {
    lease: bounds.leaseMs,
    ...(verdicts.length > 0 && { verdicts: verdicts.map(settleArguments) }),
    ...(verdicts.some(({ ok }) => !ok) && { schedule: scheduleArguments(schedule) }),
    ...(givenBack.length > 0 && {
      given_back: givenBack.map(({ platformId, token, inMs }) => [platformId, token, inMs]),
    }),
    ...(extended.length > 0 && { extended: extended.map(({ platformId, token }) => [platformId, token]) }),
    ...(wanted.length > 0 && {
      bound: bounds.maxInFlight,
      drain: bounds.drainPerSecond,
      nonce,
      wanted: wanted.map((one) => {
        const { bucket, field } = assetSlot(one.platformId);
        bytes.push(field);
        return [one.platformId, one.notificationId, one.mode, one.claim ?? 0, bucket, one.share === true];
      }),
    }),
  };
  const given = wanted.length > 0 ? turn : turnWithoutTakes;
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
