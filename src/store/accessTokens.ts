/**
 * Access tokens. Redis holds only a token's SHA-256, with a TTL, the scopes and the generation of the account
 * it was minted under. The token starts with the id of its account, so that token and account are read together.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { AccountId } from '../ids.js';
import type { Account } from './accounts.js';
import type { Db } from './db.js';
import { runPipeline } from './pipeline.js';

export interface AccessToken {
  accountId: AccountId;
  scopes: string[];
}

const idPrefix = 'acc_';
const secretBytes = 32;
const secretLength = 43;

/** A new token; it ends no older one. The generation is the one that `account` was read with. */
export async function mintAccessToken(
  db: Db,
  account: Pick<Account, 'accountId' | 'generation'>,
  scopes: readonly string[],
  ttlSeconds: number,
): Promise<string> {
  const token = account.accountId.slice(idPrefix.length) + randomBytes(secretBytes).toString('base64url');
  const value = `${account.generation} ${scopes.join(' ')}`;
  await db.redis.set(db.global.accessToken(sha256(token)), value, 'PX', Math.ceil(ttlSeconds * 1000));
  return token;
}

/** Whom a token stands for; undefined when it is unknown, expired, or its account's tokens have ended. */
export async function findAccessToken(db: Db, token: string): Promise<AccessToken | undefined> {
  if (token.length <= secretLength || token.length > 256) return undefined;
  const accountId = (idPrefix + token.slice(0, -secretLength)) as AccountId;
  const commands = db.redis
    .pipeline()
    .get(db.global.accessToken(sha256(token)))
    .hmget(db.global.account(accountId), 'generation', 'disabled');
  const [value, account] = (await runPipeline(commands)) as [string | null, (string | null)[]];
  if (!value) return undefined;
  const [minted, ...scopes] = value.split(' ');
  const [generation, disabled] = account;
  if (minted !== generation || disabled === '1') return undefined;
  return { accountId, scopes };
}

const sha256 = (token: string): string => createHash('sha256').update(token).digest('hex');
