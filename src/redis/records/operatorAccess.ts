/** Who may come in at the operators' door: tokens of programs, of which Redis holds only the SHA-256, and people. */
import { timingSafeEqual } from 'node:crypto';
import { type Db, nowOf } from '../connection/db.js';
import { ignore } from '../connection/unavailable.js';
import { randomSecret, secretHash } from './accounts.js';
import { sessionsOf } from './sessions.js';

/** Each may do what those before it may. */
export const roles = ['look', 'support', 'admin'] as const;
export type Role = (typeof roles)[number];

export const isAllowed = (role: Role, needed: Role): boolean => roles.indexOf(role) >= roles.indexOf(needed);

/** A token is `<name>.<43 characters>`. */
export const tokenNamePattern = /^[A-Za-z0-9_-]{1,64}$/;

type StoredToken = { role: Role; createdAtMs: number; expiresAtMs?: number; hash: string };

/** Makes a token, which is only in the answer; undefined if there is one of this name. @param begins is called before */
export async function createOperatorToken(
  db: Db,
  { name, role, forMs }: { name: string; role: Role; forMs?: number },
  begins?: () => Promise<void>,
) {
  if ((await db.redis.hexists(db.global.operatorTokens, name)) === 1) return undefined;
  await begins?.();
  const token = `${name}.${randomSecret()}`;
  const createdAtMs = nowOf(db);
  const expiresAtMs = forMs && createdAtMs + forMs;
  const stored: StoredToken = { role, createdAtMs, expiresAtMs, hash: secretHash(token) };
  const isNew = await db.redis.hsetnx(db.global.operatorTokens, name, JSON.stringify(stored));
  // A call with a former token of this name may have noted its use just after that token was revoked.
  if (isNew === 1) await db.redis.hdel(db.global.operatorTokensUsed, name);
  return isNew === 1 ? token : undefined;
}

/** Lists every token that was not revoked, by name; expired ones too. `lastUsedAtMs`: to a minute. */
export async function listOperatorTokens(db: Db) {
  const [tokens, used] = await Promise.all([
    db.redis.hgetall(db.global.operatorTokens),
    db.redis.hgetall(db.global.operatorTokensUsed),
  ]);
  const names = Object.keys(tokens).sort();
  return names.map((name) => {
    const { hash: _, ...token } = JSON.parse(tokens[name] ?? '') as StoredToken;
    return { name, ...token, ...(used[name] && { lastUsedAtMs: Number(used[name]) }) };
  });
}

export async function revokeOperatorToken(db: Db, name: string): Promise<void> {
  await db.redis.hdel(db.global.operatorTokens, name);
  await db.redis.hdel(db.global.operatorTokensUsed, name);
}

const usedEveryMs = 60_000;

/** Returns the token of this name; undefined if it is unknown, revoked or expired. */
async function readToken(db: Db, name: string): Promise<StoredToken | undefined> {
  const found = await db.redis.hget(db.global.operatorTokens, name);
  const stored = found === null ? undefined : (JSON.parse(found) as StoredToken);
  return (stored?.expiresAtMs ?? Infinity) > nowOf(db) ? stored : undefined;
}

/** Returns what a token allows, and notes its use; undefined if it is unknown, revoked or expired. */
export async function findOperatorToken(db: Db, token: string) {
  const name = token.slice(0, token.lastIndexOf('.'));
  if (token.length > 128 || !tokenNamePattern.test(name)) return undefined;
  const { operatorTokensUsed } = db.global;
  const [found, used] = await Promise.all([readToken(db, name), db.redis.hget(operatorTokensUsed, name)]);
  if (found === undefined) return undefined;
  const { hash, ...stored } = found;
  if (!timingSafeEqual(Buffer.from(hash), Buffer.from(secretHash(token)))) return undefined;
  const nowMs = nowOf(db);
  // A full store refuses the note, and must let operators in.
  if (nowMs - Number(used ?? 0) > usedEveryMs)
    await db.redis.hset(operatorTokensUsed, name, nowMs).catch(ignore);
  return { name, ...stored };
}

export interface Person {
  name: string;
  role: Role;
  how: 'link' | 'signed in';
  /** Of a person who signed in: who that is to the provider, for good. */
  subject?: string;
  /** Of a link: the token by which it was made, with which it ends. */
  token?: MadeWith | undefined;
}

export type MadeWith = Pick<
  NonNullable<Awaited<ReturnType<typeof findOperatorToken>>>,
  'name' | 'createdAtMs'
>;

/** Links and sessions begun earlier than the last end of all are void: each carries the number of ends before it. */
const endsBefore = async (db: Db): Promise<number> => Number(await db.redis.get(db.global.operatorEnds));

export const personSessions = sessionsOf({
  door: '/desk',
  keysOf: ({ global }) => ({ link: global.operatorLink, session: global.operatorSession }),
  stamp: async (db, person: Person) => ({ ...person, ends: await endsBefore(db) }),
  async read(db, { ends, ...person }) {
    if (ends !== (await endsBefore(db))) return undefined;
    const { token } = person;
    if (token && (await readToken(db, token.name))?.createdAtMs !== token.createdAtMs) return undefined;
    return person;
  },
});

export async function endPersonSessions(db: Db): Promise<void> {
  await db.redis.incr(db.global.operatorEnds);
}
