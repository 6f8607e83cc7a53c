/**
 * One client on the run's Redis, spoken to through the store alone, with a clock that a test moves: what the tests
 * of the scripts share.
 */

import type { Durability } from '../../src/config.js';
import { deliveryOf, readConfig } from '../../src/config.js';
import { notificationId } from '../../src/ids.js';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import {
  type ArrivedEvent,
  type Claim,
  type Claims,
  claimAgain,
  claimEvents,
} from '../../src/redis/owed/claim.js';
import type { DeliverySchedule, Settled, Verdict } from '../../src/redis/owed/settle.js';
import type { Bounds, Take, TakeMode, Taken } from '../../src/redis/owed/take.js';
import { type Turn, type Turned, turnAttempts, type Wanted } from '../../src/redis/owed/turn.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { register } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { redisPatience, servers, uniquePrefix } from '../servers.js';

export const second = 1000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;

/** The default settings. */
export const schedule = deliveryOf(readConfig({}));
export const { leaseMs } = schedule;

/** As wide as the contract's own, where a test sets none. */
export const bounds: Bounds = { leaseMs, maxInFlight: 16, drainPerSecond: 200 };

/** The kind of an attempt, as far as tests need it. */
export type Owed = Omit<Wanted, 'mode'>;

export interface Answer {
  ok: boolean;
  status?: number;
  retryAfterMs?: number;
  redeliver?: boolean;
}

/** Bounds of one call, and its name where a test repeats it. */
export type Call = Partial<Bounds> & { nonce?: string };

export interface DeliveryClient {
  db: Db;
  clientToken: string;
  account: { client_id: string; client_secret: string; scopes: string[] };
  /** Moves the clock of every script. */
  pass(ms: number): void;
  /** The scripts' clock, ms. */
  now(): number;
  /** A new event, accepted now. */
  event(given: Partial<ArrivedEvent> & { platformId: string }): ArrivedEvent;
  /** Claims an event that has arrived. */
  claim(event: ArrivedEvent): Promise<Claim>;
  /** Claims again an event whose claim may be lost. */
  claimAgain(event: ArrivedEvent, claim: number): Promise<Claim>;
  claimAndTake(events: readonly ArrivedEvent[], call?: Call): Promise<Claims>;
  /** Claims a new event of an asset. @throws where it makes no notification */
  owe(platformId: string, given?: Partial<ArrivedEvent>): Promise<Owed>;
  take(owed: Owed, mode?: TakeMode, call?: Call): Promise<Take>;
  /** Takes and settles. @throws where the attempt is refused */
  attempt(owed: Owed, answer: Answer, mode?: TakeMode): Promise<Settled>;
  settle(owed: Owed, taken: Taken, answer: Answer): Promise<Settled>;
  verdict(owed: Owed, taken: Taken, answer: Answer): Verdict;
  turn(turn: Partial<Turn>, call?: Call): Promise<Turned>;
  /** Stores a URL where there is none. */
  register(): Promise<void>;
  endpoint(): Promise<Record<string, string>>;
}

const opened = new Set<Db>();
let count = 0;

/** A client with a URL. */
export async function newDeliveryClient(
  settings: Partial<DeliverySchedule> = {},
  url = servers().redisUrl,
  durability: Durability = { trusted: false, ackReplicas: 0 },
): Promise<DeliveryClient> {
  let offsetMs = 0;
  const db = openDb({
    url,
    durability,
    prefix: uniquePrefix(),
    log: createLogger('silent', 'test'),
    clockOffsetMs: () => offsetMs,
    ...redisPatience(url),
  });
  opened.add(db);
  await waitForRedis(db, 5000);
  const account = await createAccount(db, { name: 'A media company', scopes: ['push_notifications'] });
  const { clientToken } = await createClient(db, { accountId: account.account_id, name: 'A site' });
  const times = { ...schedule, ...settings };
  const box = createSecretBox(undefined);

  const client: DeliveryClient = {
    db,
    clientToken,
    account,
    pass(ms) {
      offsetMs += ms;
    },
    now: () => Date.now() + offsetMs,
    event(given) {
      const event = { eventId: `event-${++count}`, segments: [`segment-${count}`], clientToken, ...given };
      return {
        priority: 'live',
        notify: true,
        acceptedAt: client.now(),
        ...event,
        notificationId: notificationId(event),
      };
    },
    async claim(event) {
      const { claims } = await db.durably((own) => claimEvents(own, clientToken, [event])).safe;
      return claims[0] as Claim;
    },
    claimAgain: ({ notify: _, ...event }, claim) => claimAgain(db, { ...event, claim }),
    claimAndTake: (events, call) =>
      claimEvents(db, clientToken, events, { ...bounds, nonce: newNonce(), ...call }),
    async owe(platformId, given) {
      const event = client.event({ platformId, ...given });
      const claim = await client.claim(event);
      if (claim.kind !== 'claimed') throw new Error(`claim answered ${claim.kind}`);
      return { platformId, notificationId: event.notificationId, claim: claim.claim };
    },
    async take(owed, mode = 'first', call = {}) {
      const { takes } = await client.turn({ wanted: [{ ...owed, mode }] }, call);
      return takes[0] as Take;
    },
    async attempt(owed, answer, mode) {
      const take = await client.take(owed, mode);
      if (take.kind !== 'taken') throw new Error(`take answered ${JSON.stringify(take)}`);
      return await client.settle(owed, take, { ...answer, redeliver: mode === 'redeliver' });
    },
    async settle(owed, taken, answer) {
      const { settled } = await client.turn({ verdicts: [client.verdict(owed, taken, answer)] });
      return settled[0] as Settled;
    },
    verdict: (owed, taken, answer) => verdictOf(client, owed, taken, answer),
    turn: (turn, { nonce = newNonce(), ...given } = {}) =>
      turnAttempts(db, clientToken, { nonce, ...turn }, { ...times, ...bounds, ...given }),
    async register() {
      const url = `https://receiver.example/${++count}`;
      const stored = await register(db, box, { clientToken, accountId: account.account_id, url });
      if (stored.outcome !== 'stored') throw new Error('it has a URL already');
    },
    endpoint: () => db.redis.hgetall(db.client(clientToken).endpoint),
  };
  await client.register();
  return client;
}

export function newNonce(): string {
  return `nonce-${++count}`;
}

/** All owed assets and their notifications. `waiting` and `flight` name no asset twice. */
export async function whatIsOwed({ db, clientToken }: DeliveryClient) {
  const keys = db.client(clientToken);
  const [waiting, packed] = await Promise.all([db.redis.hgetall(keys.owed), db.redis.hgetall(keys.flight)]);
  const flight: Record<string, Flight> = {};
  for (const [asset, entry] of Object.entries(packed)) flight[asset] = flightOf(entry);
  return { waiting: { ...waiting }, flight };
}

export interface Flight {
  token: string;
  leaseEndsAt: number;
  since: number;
  lane: string;
  id: string;
  /** What waits for the attempt's end: another notification, or `!` if the asset is no longer owed. */
  newer?: string;
}

function flightOf(entry: string): Flight {
  const [token = '', lease, since, lane = '', id = '', newer] = entry.split(' ');
  return {
    token,
    leaseEndsAt: Number(lease),
    since: Number(since),
    lane,
    id,
    newer,
  };
}

/** Ends every connection that tests opened: for `after`. */
export function closeDeliveryClients(): void {
  for (const db of opened) db.redis.disconnect();
  opened.clear();
}

function verdictOf(client: DeliveryClient, owed: Owed, taken: Taken, answer: Answer): Verdict {
  const status = answer.status ?? (answer.ok ? 200 : 500);
  return {
    platformId: owed.platformId,
    notificationId: owed.notificationId,
    taken,
    ok: answer.ok,
    attempt: {
      at: client.now(),
      url: taken.url,
      milliseconds: 5,
      status,
      ...(answer.ok ? {} : { error: 'http_status' }),
    },
    retryAfterMs: answer.retryAfterMs,
    redeliver: answer.redeliver,
  };
}
