/**
 * One client on the run's Redis, spoken to through the store alone, with a clock that a test moves: what the tests
 * of the scripts share.
 */
import { notificationId } from '../../src/ids.js';
import { createLogger } from '../../src/log.js';
import { createAccount } from '../../src/store/accounts.js';
import { type Claim, claimEvent } from '../../src/store/claim.js';
import { createClient } from '../../src/store/clients.js';
import { type Db, openDb, waitForRedis } from '../../src/store/db.js';
import { type EnrichmentEvent, type Look, lookAtEvent } from '../../src/store/look.js';
import { register } from '../../src/store/registrations.js';
import { createSecretBox } from '../../src/store/secretBox.js';
import { type DeliverySchedule, type Settled, settleAttempt, type Verdict } from '../../src/store/settle.js';
import { type Take, type TakeMode, type Taken, type TakeRequest, takeAttempt } from '../../src/store/take.js';
import { servers, uniquePrefix } from '../servers.js';

export const second = 1000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;

/** The contract's own times. */
export const schedule: DeliverySchedule = {
  retryScheduleMs: [5, 30, 120, 600, 1800, 3600, 7200, 14400].map((s) => s * second),
  retryWindowMs: 5 * day,
  failingAfter: 5,
  probeScheduleMs: [10, 30, 60, 120, 300].map((s) => s * second),
  suspendAfterMs: 5 * day,
};

export const leaseMs = 15 * second;

/** What an attempt is taken for, as far as a test cares. */
export type Owed = Pick<TakeRequest, 'platformId' | 'notificationId'> & Partial<TakeRequest>;

export interface Answer {
  ok: boolean;
  status?: number;
  retryAfterMs?: number;
  redeliver?: boolean;
}

export interface DeliveryClient {
  db: Db;
  clientToken: string;
  /** Moves the clock of every script. */
  pass(ms: number): void;
  /** The scripts' clock, ms. */
  now(): number;
  event(given: Partial<EnrichmentEvent> & { platformId: string }): EnrichmentEvent;
  look(event: EnrichmentEvent): Promise<Look>;
  claim(event: EnrichmentEvent, lookedUpClaim?: number): Promise<Claim>;
  /** Looks and claims a new event of an asset. */
  owe(platformId: string, given?: Partial<EnrichmentEvent>): Promise<Owed>;
  take(owed: Owed, mode?: TakeMode): Promise<Take>;
  /** Takes and settles. @throws where the attempt is refused */
  attempt(owed: Owed, answer: Answer, mode?: TakeMode): Promise<Settled>;
  settle(owed: Owed, taken: Taken, answer: Answer): Promise<Settled>;
  /** Stores a URL where there is none. */
  register(): Promise<void>;
  endpoint(): Promise<Record<string, string>>;
}

const opened = new Set<Db>();
let count = 0;

/** A client with a URL. */
export async function newDeliveryClient(settings: Partial<DeliverySchedule> = {}): Promise<DeliveryClient> {
  let offsetMs = 0;
  const db = openDb({
    url: servers().redisUrl,
    prefix: uniquePrefix(),
    log: createLogger('silent', 'test'),
    clockOffsetMs: () => offsetMs,
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
    pass(ms) {
      offsetMs += ms;
    },
    now: () => Date.now() + offsetMs,
    event(given) {
      const event = { eventId: `event-${++count}`, segments: [`segment-${count}`], clientToken, ...given };
      return { priority: 'live', notify: true, ...event, notificationId: notificationId(event) };
    },
    look: (event) => lookAtEvent(db, event),
    claim: (event, lookedUpClaim = 0) =>
      claimEvent(db, { ...event, lookedUpClaim, acceptedAt: client.now() }),
    async owe(platformId, given) {
      const event = client.event({ platformId, ...given });
      const look = await client.look(event);
      if (look.kind !== 'new') throw new Error(`look answered ${look.kind}`);
      const claim = await client.claim(event, look.claim);
      if (claim.kind !== 'claimed') throw new Error(`claim answered ${claim.kind}`);
      return { platformId, notificationId: event.notificationId, claim: claim.claim };
    },
    take: (owed, mode = 'first') =>
      takeAttempt(db, {
        clientToken,
        leaseMs,
        maxInFlight: 16,
        drainPerSecond: 200,
        ...owed,
        mode,
      }),
    async attempt(owed, answer, mode) {
      const take = await client.take(owed, mode);
      if (take.kind !== 'taken') throw new Error(`take answered ${JSON.stringify(take)}`);
      return await client.settle(owed, take, { ...answer, redeliver: mode === 'redeliver' });
    },
    settle: (owed, taken, answer) => settleAttempt(db, verdictOf(client, owed, taken, answer), times),
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

/** Ends every connection that tests opened: for `after`. */
export function closeDeliveryClients(): void {
  for (const db of opened) db.redis.disconnect();
  opened.clear();
}

function verdictOf(client: DeliveryClient, owed: Owed, taken: Taken, answer: Answer): Verdict {
  const status = answer.status ?? (answer.ok ? 200 : 500);
  return {
    clientToken: client.clientToken,
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
    ...(answer.retryAfterMs === undefined ? {} : { retryAfterMs: answer.retryAfterMs }),
    ...(answer.redeliver === undefined ? {} : { redeliver: answer.redeliver }),
  };
}
