/**
 * One client on the run's Redis, spoken to through the store alone, with a clock that a test moves: what the tests
 * of the scripts share.
 */
import type { DeliverySettings } from '../../src/config.js';
import { notificationId } from '../../src/ids.js';
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
  readStandings,
  type Standing,
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
import { keysMatching } from '../keysMatching.js';
import { atEnd, connectDb, servers, settings, uniquePrefix } from '../servers.js';

export const second = 1000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;

export const { leaseMs } = settings;

export interface Answer {
  ok: boolean;
  status?: number;
  retryAfterMs?: number;
}
export const ok: Answer = { ok: true };
export const fail: Answer = { ok: false };

export type DeliveryClient = Awaited<ReturnType<typeof newDeliveryClient>>;

let count = 0;

/** A client with a URL. @param frozenAt the time of the scripts where their clock stands still, ms */
export async function newDeliveryClient(
  given: Partial<DeliverySettings> = {},
  url = servers().redisUrl,
  frozenAt?: number,
) {
  let offsetMs = 0;
  let setBackMs = 0;
  let aheadMs = 0;
  const callersNow = (): number => (frozenAt ?? Date.now()) + offsetMs;
  const db = await connectDb(url, uniquePrefix(), {
    settings: { ...settings, ...given },
    clockOffsetMs: () => offsetMs + aheadMs,
    callersNow,
    // A busy machine must fail no test.
    commandTimeoutMs: 10_000,
  });
  atEnd(async () => db.redis.disconnect());
  const account = await createAccount(db, { name: 'A media company', scopes: ['push_notifications'] });
  const { clientToken } = await createClient(db, { accountId: account.account_id, name: 'A site' });
  const box = createSecretBox(undefined);

  const client = {
    db,
    clientToken,
    account,
    settings: db.settings,
    /** Whether its events have a body, as notices do. */
    isOfNotices: false,
    /** Moves the clock of every script; below 0: sets that back. */
    pass(ms: number): void {
      offsetMs += ms;
      setBackMs -= Math.min(ms, 0);
    },
    /** Sets Redis' clock alone: so far ahead of the callers' clocks, ms. */
    setAhead(ms: number): void {
      aheadMs = ms;
    },
    /** Moves with the callers' clocks, and is never set back. */
    elapsed: (): number => client.callersNow() + setBackMs,
    callersNow,
    /** The scripts' clock, ms. */
    now: (): number => client.callersNow() + aheadMs,
    event(given: Partial<ArrivedEvent> & { platformId: string }): ArrivedEvent {
      const event = { eventId: `event-${++count}`, segments: [`segment-${count}`], clientToken, ...given };
      const acceptedAt = client.now();
      const body = client.isOfNotices && { body: `{"event":"${count}"}` };
      const usual = { priority: 'live', notify: true, acceptedAt, ...body } as const;
      return { ...usual, ...event, notificationId: notificationId(event) };
    },
    /** Claims an event that has arrived, and takes nothing. */
    claim: async (event: ArrivedEvent): Promise<Claim> =>
      (await claimOnly(db, clientToken, [event])).claims[0] as Claim,
    /** Claims events, and takes the oldest due. */
    claims: (
      events: readonly ArrivedEvent[],
      { nonce = newNonce(), most = 64 }: { nonce?: string; most?: number } = {},
    ): Promise<Claims> => claimEvents(db, clientToken, events, { nonce, most }),
    async claimAgain({ notify: _, ...event }: ArrivedEvent, claim: number): Promise<Claim> {
      return (await claimAgain(db, clientToken, [{ ...event, claim }])).claims[0] as Claim;
    },
    /** Claims a new event of an asset. @throws where it makes no notification */
    async owe(platformId: string, given?: Partial<ArrivedEvent>): Promise<Asked> {
      const event = client.event({ platformId, ...given });
      const claim = await client.claim(event);
      if (claim.kind !== 'claimed') throw new Error(`claim answered ${claim.kind}`);
      return { platformId, notificationId: event.notificationId, claim: claim.claim };
    },
    take: async (most = 64): Promise<Taken[]> => (await client.turn({ most })).taken,
    /** Takes and settles an asset. @throws if another one is taken */
    async attempt({ platformId }: { platformId: string }, answer: Answer): Promise<Settled> {
      const [taken] = await client.take(1);
      if (taken?.platformId !== platformId) throw new Error(`${taken?.platformId ?? 'nothing'} was taken`);
      return await client.settle(taken, answer);
    },
    settle: async (taken: Taken, answer: Answer): Promise<Settled> =>
      (await client.turn({ verdicts: [client.verdict(taken, answer)] })).settled[0] as Settled,
    verdict(taken: Taken, { ok, status = ok ? 200 : 500, retryAfterMs }: Answer): Verdict {
      const error = ok ? {} : { error: 'http_status' };
      const attempt = { at: client.now(), url: taken.url, milliseconds: 5, status, ...error };
      return { taken, ok, retryAfterMs, attempt };
    },
    turn: (turn: Partial<Turn>): Promise<Turned> =>
      runTurn(db, clientToken, { nonce: newNonce(), most: 0, ...turn }),
    look: async (owed: Asked): Promise<Standing> =>
      (await readStandings(db, clientToken, [owed]))[0] as Standing,
    plan: (leastMs = 0): Promise<Plan> => planCatchUp(db, clientToken, leastMs),
    async register(): Promise<void> {
      const url = `https://receiver.example/${++count}`;
      const stored = await register(db, box, clientToken, url);
      if (stored.outcome !== 'stored') throw new Error('it has a URL already');
    },
    endpoint: (): Promise<Record<string, string>> => db.redis.hgetall(db.client(clientToken).endpoint),
  };
  await client.register();
  return client;
}

/**
 * Reads every key of a client.
 * @param beside other keys of the store
 * @returns a function that puts all of them back, and removes what came since
 */
export async function snapshot(client: DeliveryClient, ...beside: string[]): Promise<() => Promise<void>> {
  const { redis } = client.db;
  const { base } = client.db.client(client.clientToken);
  const present = async () => [
    ...beside,
    ...(await keysMatching(client.db, `${base.replaceAll('[', '\\[')}*`)),
  ];
  const kept = await Promise.all(
    (await present()).map(async (key) => ({ key, dump: await redis.dumpBuffer(key) })),
  );
  return async () => {
    for (const key of await present()) await redis.del(key);
    for (const { key, dump } of kept) if (dump !== null) await redis.restore(key, 0, dump);
  };
}
