/**
 * Console links, each of which opens one session, and the sessions. A link's token and a
 * session's secret have 256 random bits and nothing else: neither reveals the account's id, from which its client id
 * is derived. Redis holds only their SHA-256, with a TTL and two generations of the account, which are compared on every
 * use: that of its tokens, and that of its console.
 */
import type { AccountId } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { fingerprintOf, secretHash } from './accounts.js';
import { findKept, keepForSecret, useKept } from './kept.js';

export const consoleAccesses = ['full', 'read'] as const;
export type ConsoleAccess = (typeof consoleAccesses)[number];

const consoleLinkMs = 15 * 60_000;
export const consoleSessionMs = 8 * 3_600_000;

interface ConsoleGrant {
  accountId: AccountId;
  /** The account's generation when its caller was authenticated. */
  generation: number;
  access: ConsoleAccess;
  /** The scopes of the token that asked for the link; for an operator's link, those of the account. */
  scopes: string[];
}

type Stored = ConsoleGrant & { consoleGeneration: number };

export interface ConsoleSession extends ConsoleGrant {
  accountName: string;
  fingerprint: string;
}

/**
 * Makes a link that opens the console once, within 15 minutes. After `#` the token stays in the browser: no log of a proxy,
 * no `Referer` and no preview of a chat has it, and a program that fetches the address does not use up the link.
 */
export async function createConsoleLink(db: Db, origin: string, grant: ConsoleGrant) {
  const { accountId, generation, access, scopes } = grant;
  const consoleGeneration = Number(await db.redis.hget(db.global.account(accountId), 'console_generation'));
  const stored: Stored = { accountId, generation, access, scopes, consoleGeneration };
  const token = await keepForSecret(db, db.global.consoleLink, stored, consoleLinkMs);
  return { url: `${origin}/console/open#${token}`, expiresAtMs: Date.now() + consoleLinkMs };
}

/** Returns what a link opens, and leaves it unused; undefined if it opens nothing. */
export const findConsoleLink = (db: Db, token: string): Promise<ConsoleSession | undefined> =>
  findGrant(db, token, db.global.consoleLink);

/** Returns a session; undefined if it is unknown or has ended. */
export const findConsoleSession = (db: Db, secret: string): Promise<ConsoleSession | undefined> =>
  findGrant(db, secret, db.global.consoleSession);

/** A grant ends with its account, or when the account's tokens or its console have ended since. */
async function findGrant(db: Db, secret: string, keyOf: (sha256: string) => string) {
  const kept = await findKept<Stored>(db, keyOf, secret);
  if (kept === undefined) return undefined;
  const { consoleGeneration, ...grant } = kept;
  const fields = ['generation', 'console_generation', 'disabled', 'name'] as const;
  const key = db.global.account(grant.accountId);
  const [generation, ofConsole, disabled, name] = await db.redis.hmget(key, ...fields);
  if (Number(generation ?? -1) !== grant.generation || disabled === '1') return undefined;
  if (Number(ofConsole) !== consoleGeneration) return undefined;
  return { ...grant, accountName: name ?? '', fingerprint: fingerprintOf(secret) };
}

/** Uses a link for a session with this secret. @returns false if it is unknown, used or expired */
export async function openConsoleLink(db: Db, token: string, secret: string): Promise<boolean> {
  const grant = await useKept<Stored>(db, db.global.consoleLink, token);
  if (grant === undefined) return false;
  await keepForSecret(db, db.global.consoleSession, grant, consoleSessionMs, secret);
  return true;
}

export async function endConsoleSession(db: Db, secret: string): Promise<void> {
  await db.redis.del(db.global.consoleSession(secretHash(secret)));
}

/** Ends every link and session of an account. */
export async function endConsoleSessions(db: Db, accountId: AccountId): Promise<void> {
  await db.redis.hincrby(db.global.account(accountId), 'console_generation', 1);
}
