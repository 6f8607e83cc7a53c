/**
 * Console links, each of which opens one session, and the sessions. A link's token and a
 * session's secret have 256 random bits and nothing else: neither reveals the account's id, from which its client id
 * is derived. Redis holds only their SHA-256, with a TTL and two generations of the account, which are compared on every
 * use: that of its tokens, and that of its console.
 */
import { hash } from 'node:crypto';
import type { AccountId } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { randomSecret } from './accounts.js';

export const consoleAccesses = ['full', 'read'] as const;
export type ConsoleAccess = (typeof consoleAccesses)[number];

export const consoleLinkMs = 15 * 60_000;
export const consoleSessionMs = 8 * 3_600_000;

/** The account and rights of a link. */
export interface ConsoleGrant {
  accountId: AccountId;
  /** The account's generation when its caller was authenticated. */
  generation: number;
  access: ConsoleAccess;
  /** The scopes of the token that asked for the link; for an operator's link, those of the account. */
  scopes: string[];
}

/** A grant in Redis. */
type Stored = ConsoleGrant & { consoleGeneration: number };

export interface GrantedAccount extends ConsoleGrant {
  accountName: string;
}

export interface ConsoleSession extends GrantedAccount {
  /** The beginning of its secret's SHA-256, which identifies it in the audit and cannot be used as a secret. */
  fingerprint: string;
}

/** 48 bits, in hex. */
const fingerprintLength = 12;
/** Only a value in the form of `randomSecret` becomes part of a key. */
const secretPattern = /^[A-Za-z0-9_-]{43}$/;

/**
 * Makes a link that opens the console once, within 15 minutes. After `#` the token stays in the browser: no log of a proxy,
 * no `Referer` and no preview of a chat has it, and a program that fetches the address does not use up the link.
 */
export async function createConsoleLink(
  db: Db,
  origin: string,
  grant: ConsoleGrant,
): Promise<{ url: string; expiresAtMs: number }> {
  const token = randomSecret();
  const { accountId, generation, access, scopes } = grant;
  const consoleGeneration = Number(await db.redis.hget(db.global.account(accountId), 'console_generation'));
  const value = JSON.stringify({
    ...{ accountId, generation, access, scopes, consoleGeneration },
  } satisfies Stored);
  await db.redis.set(db.global.consoleLink(hash('sha256', token)), value, 'PX', consoleLinkMs);
  return { url: `${origin}/console/open#${token}`, expiresAtMs: Date.now() + consoleLinkMs };
}

/** Returns what a link opens, and leaves it unused; undefined if it opens nothing. */
export async function findConsoleLink(db: Db, token: string): Promise<GrantedAccount | undefined> {
  if (!secretPattern.test(token)) return undefined;
  const value = await db.redis.get(db.global.consoleLink(hash('sha256', token)));
  return value === null ? undefined : await grantedBy(db, value);
}

/** Makes the secret of a session. */
export function newConsoleSecret(): { secret: string; fingerprint: string } {
  const secret = randomSecret();
  return { secret, fingerprint: fingerprintOf(hash('sha256', secret)) };
}

/** Uses a link for a session with this secret. @returns false if it is unknown, used or expired */
export async function openConsoleLink(db: Db, token: string, secret: string): Promise<boolean> {
  const value = await db.redis.getdel(db.global.consoleLink(hash('sha256', token)));
  if (value === null) return false;
  await db.redis.set(db.global.consoleSession(hash('sha256', secret)), value, 'PX', consoleSessionMs);
  return true;
}

/** Returns a session; undefined if it is unknown or ended, or the account's tokens or console have ended since its link was made. */
export async function findConsoleSession(db: Db, secret: string): Promise<ConsoleSession | undefined> {
  if (!secretPattern.test(secret)) return undefined;
  const sha256 = hash('sha256', secret);
  const value = await db.redis.get(db.global.consoleSession(sha256));
  const granted = value === null ? undefined : await grantedBy(db, value);
  return granted && { ...granted, fingerprint: fingerprintOf(sha256) };
}

export async function endConsoleSession(db: Db, secret: string): Promise<void> {
  await db.redis.del(db.global.consoleSession(hash('sha256', secret)));
}

/** Ends every link and session of an account. */
export async function endConsoleSessions(db: Db, accountId: AccountId): Promise<void> {
  await db.redis.hincrby(db.global.account(accountId), 'console_generation', 1);
}

const fingerprintOf = (sha256: string): string => sha256.slice(0, fingerprintLength);

/** undefined if the account is disabled or deleted, or its tokens or its console have ended since. */
async function grantedBy(db: Db, value: string): Promise<GrantedAccount | undefined> {
  const { consoleGeneration, ...grant } = JSON.parse(value) as Stored;
  const key = db.global.account(grant.accountId);
  const [generation, ofConsole, disabled, name] = await db.redis.hmget(
    key,
    ...(['generation', 'console_generation', 'disabled', 'name'] as const),
  );
  if (Number(generation ?? -1) !== grant.generation || disabled === '1') return undefined;
  return Number(ofConsole) === consoleGeneration ? { ...grant, accountName: name ?? '' } : undefined;
}
