/**
 * Accounts, their credentials, and what ends them. The client id follows from the account id, so that a
 * known and an unknown one cost the same single look-up.
 */
import { hash } from 'node:crypto';
import { type AccountId, type ClientId, newAccountId } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runPipeline } from '../connection/pipeline.js';
import { listClients } from './clients.js';
import { setHeld } from './endpoint.js';
import { randomSecret } from './randomSecret.js';
import { UnknownAccount } from './refusals.js';

export interface Account {
  accountId: AccountId;
  name: string;
  clientId: ClientId;
  scopes: string[];
  disabled: boolean;
  /** Raised by whatever ends all tokens; each token carries the one it was minted under. */
  generation: number;
  createdAtMs: number;
}

export interface CreatedAccount {
  account_id: AccountId;
  name: string;
  client_id: ClientId;
  client_secret: string;
  scopes: string[];
}

/** How long a rotated client secret stays valid. */
export const previousSecretMs = 24 * 3600 * 1000;

export const defaultScopes: readonly string[] = ['push_notifications'];
/** Opens the publishing of enrichment events. */
export const platformScope = 'enrichments';
/** Where an account has it, only tokens with it read and rotate signing secrets. */
export const signingSecretsScope = 'signing_secrets';

/** Makes an account. Its secret (256 bits) is in the answer and nowhere else: only its hash is kept. */
export async function createAccount(
  db: Db,
  wanted: { name: string; scopes?: readonly string[]; platform?: boolean },
): Promise<CreatedAccount> {
  const accountId = newAccountId();
  const secret = randomSecret();
  const given = wanted.scopes?.length ? wanted.scopes : wanted.platform ? [] : defaultScopes;
  const scopes = [...new Set([...given, ...(wanted.platform ? [platformScope] : [])])];
  await db.redis.hset(db.global.account(accountId), {
    name: wanted.name,
    client_id: clientIdOf(accountId),
    scopes: scopes.join(' '),
    secret_hash: secretHash(secret),
    generation: 1,
    created_at: Date.now(),
  });
  await db.redis.set(db.global.clientId(clientIdOf(accountId)), accountId);
  await db.redis.sadd(db.global.accounts, accountId);
  return {
    account_id: accountId,
    name: wanted.name,
    client_id: clientIdOf(accountId),
    client_secret: secret,
    scopes,
  };
}

export async function getAccount(db: Db, accountId: string): Promise<Account | undefined> {
  return toAccount(accountId, await db.redis.hgetall(db.global.account(accountId)));
}

/** Every account, oldest first; never a secret. */
export async function listAccounts(db: Db): Promise<Account[]> {
  const ids = await db.redis.smembers(db.global.accounts);
  const commands = db.redis.pipeline();
  for (const id of ids) commands.hgetall(db.global.account(id));
  const records = (await runPipeline(commands)) as Record<string, string>[];
  return records
    .flatMap((record, i) => toAccount(ids[i] ?? '', record) ?? [])
    .sort((a, b) => a.createdAtMs - b.createdAtMs);
}

/**
 * A new secret. The old one stays valid for 24 h; with `now` it, earlier ones and every token end at once.
 * @throws UnknownAccount
 */
export async function rotateSecret(
  db: Db,
  accountId: string,
  { now = false }: { now?: boolean } = {},
): Promise<{ client_secret: string }> {
  const secret = randomSecret();
  const until = Date.now() + db.clockOffsetMs() + previousSecretMs;
  const done = await db.redis.eval(
    rotateLua,
    1,
    db.global.account(accountId),
    secretHash(secret),
    until,
    now ? 1 : 0,
    until - previousSecretMs,
  );
  if (done !== 1) throw new UnknownAccount('there is no such account');
  return { client_secret: secret };
}

// KEYS account; ARGV new hash, end of the old one's validity (ms), '1': end everything at once, now (ms).
const rotateLua = `
local A = KEYS[1]
local old = redis.call('HGET', A, 'secret_hash')
if not old then return 0 end
if ARGV[3] == '1' then
  redis.call('HDEL', A, 'previous_secrets')
  redis.call('HINCRBY', A, 'generation', 1)
else
  local kept = {old .. ':' .. ARGV[2]}
  for hash, till in string.gmatch(redis.call('HGET', A, 'previous_secrets') or '', '(%x+):(%d+)') do
    if tonumber(till) > tonumber(ARGV[4]) then kept[#kept + 1] = hash .. ':' .. till end
  end
  redis.call('HSET', A, 'previous_secrets', table.concat(kept, ','))
end
redis.call('HSET', A, 'secret_hash', ARGV[1])
return 1
`;

/**
 * Disables or enables an account. Either way the generation rises, which ends every token; its clients'
 * deliveries are held while it is disabled.
 * @throws UnknownAccount
 */
export async function setDisabled(db: Db, accountId: string, disabled: boolean): Promise<void> {
  const done = await db.redis.eval(disableLua, 1, db.global.account(accountId), disabled ? 1 : 0);
  if (done !== 1) throw new UnknownAccount('there is no such account');
  for (const client of await listClients(db, accountId)) await setHeld(db, client.clientToken, disabled);
}

const disableLua = `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'disabled', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'generation', 1)
return 1
`;

/**
 * Gives an account these scopes in the place of those it has. Tokens go on with what they have, unless a scope is taken
 * away: then every token ends.
 * @throws UnknownAccount
 */
export async function setScopes(db: Db, accountId: string, scopes: readonly string[]): Promise<void> {
  const done = await db.redis.eval(scopesLua, 1, db.global.account(accountId), scopes.join(' '));
  if (done !== 1) throw new UnknownAccount('there is no such account');
}

const scopesLua = `
local before = redis.call('HGET', KEYS[1], 'scopes')
if not before then return 0 end
local given = ' ' .. ARGV[1] .. ' '
for scope in string.gmatch(before, '%S+') do
  if not string.find(given, ' ' .. scope .. ' ', 1, true) then
    redis.call('HINCRBY', KEYS[1], 'generation', 1)
    break
  end
end
redis.call('HSET', KEYS[1], 'scopes', ARGV[1])
return 1
`;

/** SHA-256 is enough: the secret has 256 random bits, there is nothing to guess. */
export const secretHash = (secret: string): string => hash('sha256', secret);

export const clientIdOf = (accountId: string): ClientId => accountId.replace(/^acc_/, 'cid_') as ClientId;
/** A client id that cannot be one belongs to no account. */
export const accountIdOf = (clientId: string): string =>
  isClientId(clientId) ? `acc_${clientId.slice(4)}` : 'acc_';
/** Whether it has the form of one. */
export const isClientId = (text: string): boolean => clientIdPattern.test(text);
const clientIdPattern = /^cid_[A-Za-z0-9_-]{1,64}$/;

function toAccount(accountId: string, record: Record<string, string>): Account | undefined {
  if (!record.secret_hash) return undefined;
  return {
    accountId: accountId as AccountId,
    name: record.name ?? '',
    clientId: clientIdOf(accountId),
    scopes: (record.scopes ?? '').split(' ').filter(Boolean),
    disabled: record.disabled === '1',
    generation: Number(record.generation ?? 0),
    createdAtMs: Number(record.created_at ?? 0),
  };
}
