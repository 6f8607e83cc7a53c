/**
 * One client on the run's Redis, spoken to through the store alone, with a clock that a test moves: what the tests
 * of the scripts share.
 */
import { type DeliverySettings, type Durability, deliveryOf, readConfig } from '../../src/config.js';
import { notificationId } from '../../src/ids.js';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import {
  type ArrivedEvent,
  type Claim,
  type Claims,
  claimAgain,
  claimEvents,
  claimOnly,
} from '../../src/redis/owed/claim.js';
import {
  type Asked,
  type Plan,
  planCatchUp,
  type Standing,
  standingsOf,
} from '../../src/redis/owed/standing.js';
import {
  newNonce,
  runTurn,
  type Settled,
  type Taken,
  type Turn,
  type Turned,
  type Verdict,
} from '../../src/redis/owed/turn.js';
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
export const settings = deliveryOf(readConfig({}));
export const { leaseMs } = settings;

export interface Answer {
  ok: boolean;
  status?: number;
  retryAfterMs?: number;
}
export const ok: Answer = { ok: true };
export const fail: Answer = { ok: false };

export interface DeliveryClient {
  db: Db;
  clientToken: string;
  account: { client_id: string; client_secret: string; scopes: string[] };
  settings: DeliverySettings;
  /** Moves the clock of every script. */
  pass(ms: number): void;
  /** The scripts' clock, ms. */
  now(): number;
  /** A new event, accepted now. */
  event(given: Partial<ArrivedEvent> & { platformId: string }): ArrivedEvent;
  /** Claims an event that has arrived, and takes nothing. */
  claim(event: ArrivedEvent): Promise<Claim>;
  /** Claims events, and takes the oldest due. */
  claims(events: readonly ArrivedEvent[], given?: { nonce?: string; most?: number }): Promise<Claims>;
  /** Claims again an event whose claim may be lost. */
  claimAgain(event: ArrivedEvent, claim: number): Promise<Claim>;
  /** Claims a new event of an asset. @throws where it makes no notification */
  owe(platformId: string, given?: Partial<ArrivedEvent>): Promise<Asked>;
  /** Takes the oldest due, at most so many. */
  take(most?: number): Promise<Taken[]>;
  /** Takes and settles an asset. @throws if another one is taken */
  attempt(owed: { platformId: string }, answer: Answer): Promise<Settled>;
  settle(taken: Taken, answer: Answer): Promise<Settled>;
  verdict(taken: Taken, answer: Answer): Verdict;
  turn(turn: Partial<Turn>, name?: 'turn' | 'settle'): Promise<Turned>;
  look(owed: Asked): Promise<Standing>;
  plan(): Promise<Plan>;
  /** Stores a URL where there is none. */
  register(): Promise<void>;
  endpoint(): Promise<Record<string, string>>;
}

const opened = new Set<Db>();
let count = 0;

/** A client with a URL. */
export async function newDeliveryClient(
  given: Partial<DeliverySettings> = {},
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
  const box = createSecretBox(undefined);

  const client: DeliveryClient = {
    db,
    clientToken,
    account,
    settings: { ...settings, ...given },
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
    claim: async (event) => (await claimOnly(db, clientToken, [event]))[0] as Claim,
    claims: (events, { nonce = newNonce(), most = 64 } = {}) =>
      claimEvents(db, clientToken, events, client.settings, { nonce, most }),
    async claimAgain({ notify: _, ...event }, claim) {
      return (await claimAgain(db, { ...event, claim })).claim;
    },
    async owe(platformId, given) {
      const event = client.event({ platformId, ...given });
      const claim = await client.claim(event);
      if (claim.kind !== 'claimed') throw new Error(`claim answered ${claim.kind}`);
      return { platformId, notificationId: event.notificationId, claim: claim.claim };
    },
    take: async (most = 64) => (await client.turn({ most })).taken,
    async attempt({ platformId }, answer) {
      const [taken] = await client.take(1);
      if (taken?.platformId !== platformId) throw new Error(`${taken?.platformId ?? 'nothing'} was taken`);
      return await client.settle(taken, answer);
    },
    settle: async (taken, answer) =>
      (await client.turn({ verdicts: [client.verdict(taken, answer)] })).settled[0] as Settled,
    verdict: (taken, { ok, status = ok ? 200 : 500, retryAfterMs }) => ({
      taken,
      isOk: ok,
      retryAfterMs,
      attempt: {
        at: client.now(),
        url: taken.url,
        milliseconds: 5,
        status,
        ...(ok ? {} : { error: 'http_status' }),
      },
    }),
    turn: (turn, name) =>
      runTurn(db, clientToken, { nonce: newNonce(), most: 0, ...turn }, client.settings, name),
    look: async (owed) =>
      (await standingsOf(db, clientToken, [owed], client.settings.maxInFlight))[0] as Standing,
    plan: () => planCatchUp(db, clientToken, client.settings),
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
    ...(newer !== undefined && { newer }),
  };
}

/** Ends every connection that tests opened: for `after`. */
export function closeDeliveryClients(): void {
  for (const db of opened) db.redis.disconnect();
  opened.clear();
}
