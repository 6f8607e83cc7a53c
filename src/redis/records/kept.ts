/** Keeps values for whoever has a secret: links, sessions, sign-ins. Redis holds only the secret's SHA-256, for a time. */
import type { Db } from '../connection/db.js';
import { randomSecret, secretHash } from './accounts.js';

type KeyOf = (sha256: string) => string;

/** Keeps a value. @returns its secret, unless that was given */
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

/** @returns undefined if the secret is unknown or its time is over */
export async function findKept<Value>(db: Db, keyOf: KeyOf, secret: string): Promise<Value | undefined> {
  return isSecret(secret) ? parse<Value>(await db.redis.get(keyOf(secretHash(secret)))) : undefined;
}

/** The same, once. */
export async function useKept<Value>(db: Db, keyOf: KeyOf, secret: string): Promise<Value | undefined> {
  return isSecret(secret) ? parse<Value>(await db.redis.getdel(keyOf(secretHash(secret)))) : undefined;
}

/** Only a value in the form of `randomSecret` becomes part of a key. */
const isSecret = (text: string): boolean => /^[A-Za-z0-9_-]{43}$/.test(text);

const parse = <Value>(text: string | null): Value | undefined =>
  text === null ? undefined : (JSON.parse(text) as Value);
