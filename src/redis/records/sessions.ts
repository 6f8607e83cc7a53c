/**
 * Links, each of which opens one session, and the sessions, of the console and of the desk. A link's token and a session's secret have
 * 256 random bits and nothing else: neither reveals the account's id, from which its client id is derived. Redis holds only their
 * SHA-256, with a TTL and the numbers that are raised to end all sessions, which are compared on every use.
 */
import type { AccountId } from '../../ids.js';
import type { Db } from '../connection/db.js';
import type { MadeBy } from './accessTokens.js';
import { fingerprintOf, randomSecret, secretHash } from './accounts.js';

export const linkMs = 15 * 60_000;
export const sessionMs = 8 * 3_600_000;

type KeyOf = (sha256: string) => string;

/** Keeps a value for a time. @returns its secret, unless that was given */
export async function keepForSecret(
  db: Db,
  keyOf: KeyOf,
  value: object,
  forMs: number,
  secret = randomSecret(),
): Promise<string> {
  await db.redis.set(keyOf(secretHash(secret)), JSON.stringify(value), 'PX', forMs);
  return secret;
}

/** Returns a kept value, once; undefined if the secret is unknown or its time is over. */
export const useKept = async <Value>(db: Db, keyOf: KeyOf, secret: string): Promise<Value | undefined> =>
  isSecret(secret) ? parse<Value>(await db.redis.getdel(keyOf(secretHash(secret)))) : undefined;

/** Only a value in the form of `randomSecret` becomes part of a key. */
const isSecret = (text: string): boolean => /^[A-Za-z0-9_-]{43}$/.test(text);

const parse = <Value>(text: string | null) => (text === null ? undefined : (JSON.parse(text) as Value));

export type Sessions<Grant, Session> = ReturnType<typeof sessionsOf<Grant, object, Session>>;

interface Kind<Grant, Stored, Session> {
  door: '/console' | '/desk';
  keysOf(db: Db): { link: KeyOf; session: KeyOf };
  /** Adds to a grant what ends it early. */
  stamp(db: Db, grant: Grant): Promise<Stored>;
  /** Returns what a grant allows; undefined if it was ended. */
  read(db: Db, stored: Stored, secret: string): Promise<Session | undefined>;
}

export function sessionsOf<Grant, Stored extends object, Session>(kind: Kind<Grant, Stored, Session>) {
  const { door, keysOf, stamp, read } = kind;
  const find = async (db: Db, keyOf: KeyOf, secret: string) => {
    if (!isSecret(secret)) return undefined;
    const stored = parse<Stored>(await db.redis.get(keyOf(secretHash(secret))));
    return stored && read(db, stored, secret);
  };
  return {
    /**
     * Makes a link that opens a session once, within 15 minutes. After `#` its token stays in the browser: no log of a proxy, no
     * `Referer` and no preview of a chat has it, and a program that fetches the address does not use up the link.
     */
    async createLink(db: Db, grant: Grant) {
      const token = await keepForSecret(db, keysOf(db).link, await stamp(db, grant), linkMs);
      return { token, address: `${door}/open#${token}`, expiresAtMs: Date.now() + linkMs };
    },
    /** Returns what a link opens, and leaves it unused; undefined if it opens nothing. */
    findLink: (db: Db, token: string) => find(db, keysOf(db).link, token),
    /** Uses a link for a session with this secret. @returns false if it is unknown, used or expired */
    async openLink(db: Db, token: string, secret: string): Promise<boolean> {
      const stored = await db.durably((own) => useKept<Stored>(own, keysOf(db).link, token)).safe;
      if (stored !== undefined) await keepForSecret(db, keysOf(db).session, stored, sessionMs, secret);
      return stored !== undefined;
    },
    find: (db: Db, secret: string) => find(db, keysOf(db).session, secret),
    /** Ends a session durably, also where a former call has ended it. */
    end: (db: Db, secret: string) =>
      db.durably((own) => own.redis.del(keysOf(db).session(secretHash(secret)))).safe,
  };
}

export const consoleAccesses = ['full', 'read'] as const;

export interface ConsoleGrant extends MadeBy {
  accountId: AccountId;
  /** The account's generation when its caller was authenticated. */
  generation: number;
  access: (typeof consoleAccesses)[number];
  /** The scopes of the token that asked for the link; for an operator's, those of the account that the operator's role allows. */
  scopes: string[];
}

export type ConsoleSession = ConsoleGrant & { accountName: string; fingerprint: string };

/** A session of the console ends with its account, or when the account's tokens or its console have ended since. */
export const consoleSessions = sessionsOf({
  door: '/console',
  keysOf: ({ global }) => ({ link: global.consoleLink, session: global.consoleSession }),
  async stamp(db, { accountId, generation, access, scopes, by, maySeeSecrets }: ConsoleGrant) {
    const consoleGeneration = Number(await db.redis.hget(db.global.account(accountId), 'console_generation'));
    return { accountId, generation, access, scopes, by, maySeeSecrets, consoleGeneration };
  },
  async read(db, { consoleGeneration, ...grant }, secret): Promise<ConsoleSession | undefined> {
    const fields = ['generation', 'console_generation', 'disabled', 'name'] as const;
    const key = db.global.account(grant.accountId);
    const [generation, ofConsole, disabled, name] = await db.redis.hmget(key, ...fields);
    if (Number(generation ?? -1) !== grant.generation || disabled === '1') return undefined;
    if (Number(ofConsole) !== consoleGeneration) return undefined;
    return { ...grant, accountName: name ?? '', fingerprint: fingerprintOf(secret) };
  },
});

export async function endConsoleSessions(db: Db, accountId: AccountId): Promise<void> {
  await db.redis.hincrby(db.global.account(accountId), 'console_generation', 1);
}
