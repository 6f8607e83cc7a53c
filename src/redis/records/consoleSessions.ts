/**
 * Console links, each of which opens one session, and the sessions. A link's token and a
 * session's secret have 256 random bits and nothing else: neither reveals the account's id, from which its client id
 * is derived. Redis holds only their SHA-256, with a TTL and the account's generation, which is compared on every use.
 */
import { hash } from 'node:crypto';
import type { AccountId } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { randomSecret } from './randomSecret.js';

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

export interface ConsoleSession extends ConsoleGrant {
  accountName: string;
  /** The beginning of its secret's SHA-256, which identifies it in the audit and cannot be used as a secret. */
  fingerprint: string;
}

/** 48 bits, in hex. */
const fingerprintLength = 12;
/** Only a value in the form of `randomSecret` becomes part of a key. */
const secretPattern = /^[A-Za-z0-9_-]{43}$/;

/** Makes a token that opens the console once, within 15 minutes. */
export async function createConsoleLink(
  db: Db,
  grant: ConsoleGrant,
): Promise<{ token: string; expiresAtMs: number }> {
  const token = randomSecret();
  const { accountId, generation, access, scopes } = grant;
  const value = JSON.stringify({ accountId, generation, access, scopes } satisfies ConsoleGrant);
  await db.redis.set(db.global.consoleLink(hash('sha256', token)), value, 'PX', consoleLinkMs);
  return { token, expiresAtMs: Date.now() + consoleLinkMs };
}

/** Uses a link; undefined if it is unknown, used or expired, or the account's tokens have ended since. */
export async function openConsoleLink(db: Db, token: string): Promise<string | undefined> {
  if (!secretPattern.test(token)) return undefined;
  const value = await db.redis.getdel(db.global.consoleLink(hash('sha256', token)));
  if (value === null || (await accountNameOf(db, grantOf(value))) === undefined) return undefined;
  const secret = randomSecret();
  await db.redis.set(db.global.consoleSession(hash('sha256', secret)), value, 'PX', consoleSessionMs);
  return secret;
}

/** Returns a session; undefined if it is unknown or ended, or the account's tokens have ended since its link was made. */
export async function findConsoleSession(db: Db, secret: string): Promise<ConsoleSession | undefined> {
  if (!secretPattern.test(secret)) return undefined;
  const sha256 = hash('sha256', secret);
  const value = await db.redis.get(db.global.consoleSession(sha256));
  if (value === null) return undefined;
  const grant = grantOf(value);
  const accountName = await accountNameOf(db, grant);
  if (accountName === undefined) return undefined;
  return { ...grant, accountName, fingerprint: sha256.slice(0, fingerprintLength) };
}

export async function endConsoleSession(db: Db, secret: string): Promise<void> {
  await db.redis.del(db.global.consoleSession(hash('sha256', secret)));
}

const grantOf = (value: string): ConsoleGrant => JSON.parse(value) as ConsoleGrant;

/** undefined if the account is disabled or deleted, or its tokens have ended since. */
async function accountNameOf(db: Db, grant: ConsoleGrant): Promise<string | undefined> {
  const key = db.global.account(grant.accountId);
  const [generation, disabled, name] = await db.redis.hmget(key, 'generation', 'disabled', 'name');
  return Number(generation ?? -1) === grant.generation && disabled !== '1' ? (name ?? '') : undefined;
}
