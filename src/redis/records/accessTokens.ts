/**
 * Access tokens. Redis holds only a token's SHA-256, with a TTL, the scopes and the generation of the account
 * under which it was minted. The token starts with the id of its account, so that token and account are read together.
 * Its key has the account's hash tag, so that a script may touch both.
 */
import { hash } from 'node:crypto';
import type { AccountId } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { evaluate } from '../connection/library.js';
import { runPipeline } from '../connection/pipeline.js';
import { accountIdOf, randomSecret, secretHash } from './accounts.js';

export interface AccessToken {
  accountId: AccountId;
  scopes: string[];
  /** Generations of its account: now, and when the token was minted. */
  generation: number;
  /** The beginning of its SHA-256, which identifies it in the audit and cannot be used as a token. */
  fingerprint: string;
}

const idPrefix = 'acc_';
/** 32 bytes in base64url. */
const secretLength = 43;
/** 48 bits, in hex. */
const fingerprintLength = 12;

export type Minted =
  | { outcome: 'minted'; token: string }
  | { outcome: 'invalid_client' }
  | { outcome: 'invalid_scope' };

/**
 * Mints a token for an account's credentials; older ones stay valid. An unknown client id, a wrong secret and a disabled
 * account take the same time to refuse.
 */
export async function mintAccessToken(
  db: Db,
  credentials: { clientId: string; clientSecret: string },
  scopes: readonly string[],
  ttlSeconds: number,
): Promise<Minted> {
  const accountId = accountIdOf(credentials.clientId);
  const token = accountId.slice(idPrefix.length) + randomSecret();
  const outcome = await evaluate(
    db,
    'mintToken',
    [db.global.account(accountId), db.global.accessToken(accountId, hash('sha256', token))],
    [secretHash(credentials.clientSecret), scopes.join(' '), Math.ceil(ttlSeconds * 1000)],
  );
  return outcome === 'minted'
    ? { outcome, token }
    : { outcome: outcome as 'invalid_client' | 'invalid_scope' };
}

/** Returns the account of a token; undefined if it is unknown or expired, or its account's tokens have ended. */
export async function findAccessToken(db: Db, token: string): Promise<AccessToken | undefined> {
  if (token.length <= secretLength || token.length > 256) return undefined;
  const accountId = (idPrefix + token.slice(0, -secretLength)) as AccountId;
  const sha256 = hash('sha256', token);
  const commands = db.redis
    .pipeline()
    .get(db.global.accessToken(accountId, sha256))
    .hmget(db.global.account(accountId), 'generation', 'disabled');
  const [value, account] = (await runPipeline(commands)) as [string | null, (string | null)[]];
  if (!value) return undefined;
  const [minted, ...scopes] = value.split(' ');
  const [generation, disabled] = account;
  if (minted !== generation || disabled === '1') return undefined;
  return { accountId, scopes, generation: Number(minted), fingerprint: sha256.slice(0, fingerprintLength) };
}

/** Returns the fingerprint of a token that this account has; undefined if it has no such token. */
export async function fingerprintOfOwn(
  db: Db,
  accountId: string,
  token: string,
): Promise<string | undefined> {
  const sha256 = hash('sha256', token);
  const exists = await db.redis.exists(db.global.accessToken(accountId, sha256));
  return exists === 1 ? sha256.slice(0, fingerprintLength) : undefined;
}

export async function revokeAccessToken(db: Db, accountId: string, token: string): Promise<void> {
  await db.redis.del(db.global.accessToken(accountId, hash('sha256', token)));
}

/**
 * Shares one read among callers who ask for the same at the same time. A caller who asks during a read gets the next one,
 * which begins after the call: no answer is older than its question.
 */
export function shareReads<T>(read: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const reads = new Map<string, { ended: Promise<void>; next?: Promise<T> }>();

  function begin(key: string): Promise<T> {
    const answer = read(key);
    const ended = answer.then(
      () => undefined,
      () => undefined,
    );
    const own: { ended: Promise<void>; next?: Promise<T> } = { ended };
    reads.set(key, own);
    void ended.then(() => {
      if (own.next === undefined) reads.delete(key);
    });
    return answer;
  }

  return (key) => {
    const underWay = reads.get(key);
    if (underWay === undefined) return begin(key);
    underWay.next ??= underWay.ended.then(() => begin(key));
    return underWay.next;
  };
}
