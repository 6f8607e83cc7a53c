/**
 * Access tokens. Redis holds only a token's SHA-256, with a TTL, the scopes and the generation of the account
 * under which it was minted. The token starts with the id of its account, so that token and account are read together.
 * Its key has the account's hash tag, so that a script may touch both.
 */
import type { AccountId } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { evaluate } from '../connection/library.js';
import { accountIdOf, type Credentials, fingerprintOf, randomSecret, secretHash } from './accounts.js';

/** A token, or what a session of the console has instead. */
export type AccessToken = NonNullable<Awaited<ReturnType<typeof findAccessToken>>> & Partial<MadeBy>;

/** Of a session: who made its link, and whether that one may see and change secrets. */
export type MadeBy = { by: string; maySeeSecrets: boolean };

const idPrefix = 'acc_';
/** 32 bytes in base64url. */
const secretLength = 43;

type Outcome = 'minted' | 'invalid_client' | 'invalid_scope' | 'too_many';

/**
 * Mints a token for an account's credentials; older ones stay valid. An unknown client id, a wrong secret and a disabled
 * account take the same time to refuse.
 * @param at.perSecond the account's rate, over all processes
 * @returns `token`: valid only if it was minted; `waitMs`: until the rate allows one, if there were too many
 */
export async function mintAccessToken(
  db: Db,
  credentials: Credentials,
  scopes: readonly string[],
  { ttlSeconds, perSecond }: { ttlSeconds: number; perSecond: number },
) {
  const accountId = accountIdOf(credentials.clientId);
  const token = accountId.slice(idPrefix.length) + randomSecret();
  const { account, accessToken, tokenRate } = db.global;
  const keys = [account(accountId), accessToken(accountId, secretHash(token)), tokenRate(accountId)];
  const hash = secretHash(credentials.clientSecret);
  const args = [hash, scopes.join(' '), Math.ceil(ttlSeconds * 1000), perSecond];
  const [outcome, waitMs] = await evaluate<[Outcome, number]>(db, 'mintToken', keys, args);
  return { outcome, token, waitMs };
}

/** Returns the account of a token; undefined if it is unknown or expired, or its account's tokens have ended. */
export async function findAccessToken(db: Db, token: string) {
  if (token.length <= secretLength || token.length > 256) return undefined;
  const accountId = (idPrefix + token.slice(0, -secretLength)) as AccountId;
  const [value, [generation, disabled]] = await Promise.all([
    db.redis.get(db.global.accessToken(accountId, secretHash(token))),
    db.redis.hmget(db.global.account(accountId), 'generation', 'disabled'),
  ]);
  if (!value) return undefined;
  const [minted, ...scopes] = value.split(' ');
  if (minted !== generation || disabled === '1') return undefined;
  return { accountId, scopes, generation: Number(minted), fingerprint: fingerprintOf(token) };
}

/** Returns the fingerprint of a token that this account has; undefined if it has no such token. */
export async function fingerprintOfOwn(db: Db, accountId: string, token: string) {
  const exists = await db.redis.exists(db.global.accessToken(accountId, secretHash(token)));
  return exists === 1 ? fingerprintOf(token) : undefined;
}

export async function revokeAccessToken(db: Db, accountId: string, token: string): Promise<void> {
  await db.redis.del(db.global.accessToken(accountId, secretHash(token)));
}

/** Shares one read among callers who ask for the same in one round of the event loop: no answer is older than its question. */
export function shareReads<T>(read: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const coming = new Map<string, Promise<T>>();
  return (key) => {
    const shared =
      coming.get(key) ??
      new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
        coming.delete(key);
        return read(key);
      });
    coming.set(key, shared);
    return shared;
  };
}
