/**
 * Accounts, their credentials, and the changes that end them. The client id is derived from the account id, so that a
 * known and an unknown client id both cost a single look-up.
 */
import { hash, randomBytes } from 'node:crypto';
import { type AccountId, isNoticesClient, newAccountId, noticesClient } from '../../ids.js';
import { mapInPages } from '../../promises.js';
import type { ScriptArgument } from '../connection/arguments.js';
import { type Db, nowOf, timeAt, toPairs } from '../connection/db.js';
import { evaluate } from '../connection/library.js';
import { unlessBroken } from '../connection/unavailable.js';
import { ChangeRefused, type Client, getClient, readEach, sortedTokens } from './clients.js';
import { removeNoticesUrl } from './deletion.js';
import { holdOf, setHeld } from './endpoint.js';
import { readIndex } from './nameIndex.js';
import { getRegistration } from './registrations.js';

export type Credentials = { clientId: string; clientSecret: string };
export type Account = NonNullable<Awaited<ReturnType<typeof getAccount>>>;
type NewAccount = { account_id: AccountId; name: string; client_id: string; scopes: string[] };

/** How long a rotated client secret stays valid. */
const previousSecretMs = 24 * 3600 * 1000;

export const defaultScopes: readonly string[] = ['push_notifications'];
export const platformScope = 'enrichments';
/** If an account has this scope, only tokens with it read and rotate signing secrets, and set request headers. */
export const signingSecretsScope = 'signing_secrets';

/**
 * Creates an account. Its secret (256 bits) is only in the answer: Redis keeps its hash. `namesake` is the first account of this name,
 * if that is another.
 * @param ifAbsent creates none if there is one of this name, even if both are created at the same time: `isNew` is false then
 * @param begins is called before the account is created
 */
export async function createAccount(
  db: Db,
  { name, ...wanted }: { name: string; scopes?: readonly string[]; ifAbsent?: boolean },
  begins?: (account: NewAccount) => Promise<void>,
) {
  const { scopes = defaultScopes } = wanted;
  const own = newAccountId();
  const isFirst = (await db.redis.hsetnx(db.global.accountNames, name, own)) === 1;
  const first = isFirst ? own : ((await db.redis.hget(db.global.accountNames, name)) as AccountId);
  // The call that took the name may have ended before it created the account.
  const accountId = wanted.ifAbsent ? first : own;
  const account = { account_id: accountId, name, client_id: clientIdOf(accountId), scopes: [...scopes] };
  if ((await db.redis.exists(db.global.account(accountId))) === 0) await begins?.(account);
  const secret = randomSecret();
  const fields = { secret_hash: secretHash(secret), name, scopes: scopes.join(' '), generation: 1 };
  const created_at = Date.now();
  const given = Object.entries({ ...fields, created_at }).flat();
  await Promise.all([
    db.redis.sadd(db.global.accounts, accountId),
    db.redis.hsetnx(db.global.accountIndex, accountId, `${created_at}\n${name}`),
  ]);
  const isNew = (await evaluate(db, 'createAccount', [db.global.account(accountId)], given)) === 1;
  return { ...account, client_secret: secret, isNew, namesake: first === accountId ? undefined : first };
}

const scopesIn = (text = ''): string[] => text.split(' ').filter(Boolean);

export async function getAccount(db: Db, accountId: string) {
  const record = await db.redis.hgetall(db.global.account(accountId));
  if (!record.secret_hash) return undefined;
  return {
    accountId: accountId as AccountId,
    name: record.name ?? '',
    clientId: clientIdOf(accountId),
    scopes: scopesIn(record.scopes),
    disabled: record.disabled === '1',
    paused: record.paused === '1',
    /** Raised to end all tokens; each token carries the generation under which it was minted. */
    generation: Number(record.generation ?? 0),
    createdAtMs: Number(record.created_at ?? 0),
  };
}

export async function findAccounts(db: Db, isMeant: (name: string) => boolean) {
  const { accounts, accountIndex } = db.global;
  const nameIn = (entry: string) => entry.slice(entry.indexOf('\n') + 1);
  const found = await readIndex(db, [accountIndex, accounts], (entry) => isMeant(nameIn(entry)));
  if (found === undefined) {
    // A creation was cut off before its entry.
    await mapInPages(await db.redis.smembers(accounts), 100, async (id) => {
      const { createdAtMs = 0, name = '' } = (await getAccount(db, id)) ?? {};
      await db.redis.hsetnx(accountIndex, id, `${createdAtMs}\n${name}`);
    });
    return findAccounts(db, isMeant);
  }
  const entries = [...found].map(([id, entry]) => {
    return { accountId: id, name: nameIn(entry), createdAtMs: Number.parseInt(entry, 10) };
  });
  return entries.sort((a, b) => a.createdAtMs - b.createdAtMs);
}

/**
 * Gives an account a new secret. The old one stays valid for 24 h; with `now` all old ones and every token end immediately.
 * @throws ChangeRefused
 */
export async function rotateSecret(db: Db, accountId: string, { now = false }: { now?: boolean } = {}) {
  const secret = randomSecret();
  const until = nowOf(db) + previousSecretMs;
  await changeAccount(db, 'rotateSecret', accountId, [secretHash(secret), until, now ? 1 : 0]);
  return { client_secret: secret };
}

/**
 * Disables or pauses an account, or ends that. Both hold its clients' deliveries; a disabled account's generation is raised, which ends
 * every token for good. @returns its clients @throws ChangeRefused
 */
export async function setStopped(db: Db, accountId: string, field: 'disabled' | 'paused', value: boolean) {
  await changeStanding(db, accountId, field, value ? '1' : '0');
  return await holdClients(db, accountId);
}

async function holdClients(db: Db, accountId: string): Promise<Client[]> {
  const broken: unknown[] = [];
  const noted = <T>(work: Promise<T>) => unlessBroken(work, (err) => broken.push(err));
  const tokens = await sortedTokens(db, accountId);
  const clients = await readEach(tokens, (token) => noted(getClient(db, token)));
  const [others, own] = [clients.filter(isOfNotices), clients.filter((client) => !isOfNotices(client))];
  await holdAs(
    db,
    async () => accountId,
    // One after the other, 5,000 take seconds.
    (held) => mapInPages(own, 50, ({ clientToken }) => noted(setHeld(db, clientToken, held))),
  );
  for (const { clientToken } of others) await noted(holdAsOwner(db, clientToken));
  if (broken.length > 0) throw broken[0];
  return clients;
}

/** Clients of notices: one of them may belong to another account by now. */
const isOfNotices = ({ clientToken }: Client): boolean => isNoticesClient(clientToken);

/** Holds a client as its account is held, or ends that. */
export const holdAsOwner = (db: Db, clientToken: string): Promise<void> =>
  holdAs(
    db,
    async () => (await getClient(db, clientToken))?.accountId,
    (held) => setHeld(db, clientToken, held),
  );

type Held = ReturnType<typeof holdOf>;

/** Holds clients as their owner is held. Reads both again afterwards: either may have changed meanwhile. */
async function holdAs(
  db: Db,
  findOwner: () => Promise<string | undefined>,
  hold: (held: Held) => Promise<unknown>,
): Promise<void> {
  for (let held: Held | undefined; ; ) {
    const owner = await findOwner();
    const account = owner === undefined ? undefined : await getAccount(db, owner);
    const wanted = account !== undefined && holdOf(account);
    if (held === wanted) return;
    held = wanted;
    await hold(wanted);
  }
}

/**
 * Replaces the scopes of an account. Tokens keep their scopes, unless a scope is removed from the account: then every
 * token ends. An account that becomes a platform, or no longer is one, loses its URL for notices.
 * @returns the scopes before @throws ChangeRefused
 */
export async function setScopes(db: Db, accountId: string, scopes: readonly string[]): Promise<string[]> {
  const before = await changeStanding(db, accountId, 'scopes', scopes.join(' '));
  await dropFormerNotices(db, accountId, scopes);
  return scopesIn(before);
}

/** Removes the URL for notices that the account's calls no longer find. */
async function dropFormerNotices(db: Db, accountId: string, scopes: readonly string[]): Promise<void> {
  const former = noticesClient(scopes.includes(platformScope) ? accountId : 'platform');
  for (let isOther = true; isOther; ) {
    const url = (await getRegistration(db, former))?.url;
    const owner = (await getClient(db, former))?.accountId;
    if (owner !== accountId || url === undefined) return;
    ({ isOther } = await removeNoticesUrl(db, former, url, 'operator'));
  }
}

/** Changes what other records follow: noted first, because the sweep ends what is cut off. */
async function changeStanding(db: Db, accountId: string, field: string, value: string): Promise<string> {
  await evaluate(db, 'listWork', [db.global.changedAccounts], [accountId, '']);
  return String(await changeAccount(db, 'changeAccount', accountId, [field, value]));
}

/** So many changed accounts, each with all of its clients, are settled by one sweep; the next one settles the rest. */
const settledAtOnce = 200;

/**
 * Ends what changes of accounts, made more than a minute ago, may have left undone: a process or a command has ended before.
 * @param told.broken each account of which the keys of a client cannot be read; it is tried again a minute later
 * @param told.away any other error of an account; it is tried again at once
 */
export async function settleAccounts(
  db: Db,
  told: { broken(accountId: string, err: unknown): void; away(err: unknown): void },
): Promise<void> {
  const { changedAccounts } = db.global;
  const until = (await timeAt(db, changedAccounts)) - 60_000;
  const settle = async (accountId: string) => {
    const { scopes } = (await getAccount(db, accountId)) ?? {};
    try {
      if (scopes) await dropFormerNotices(db, accountId, scopes);
    } finally {
      await holdClients(db, accountId);
    }
  };
  const range = ['-inf', until, 'WITHSCORES', 'LIMIT', 0, settledAtOnce] as const;
  for (const [accountId, at] of toPairs(await db.redis.zrangebyscore(changedAccounts, ...range))) {
    let settledAt = at;
    const settled = unlessBroken(settle(accountId), (err) => {
      settledAt = '';
      told.broken(accountId, err);
    });
    // Where a part of Redis is away, it delays only the accounts that have clients there.
    await settled
      .then(() => evaluate(db, 'listWork', [changedAccounts], [accountId, settledAt]))
      .catch(told.away);
  }
}

async function changeAccount(db: Db, script: string, accountId: string, args: ScriptArgument[]) {
  const done = await evaluate<string | number>(db, script, [db.global.account(accountId)], args);
  if (done === 0) throw new ChangeRefused('there is no such account');
  return done;
}

/** Returns whether credentials are right; false for a disabled account. It does the same work for every wrong one. */
export async function areCredentials(db: Db, { clientId, clientSecret }: Credentials) {
  const given = secretHash(clientSecret);
  const key = db.global.account(accountIdOf(clientId));
  const fields = ['secret_hash', 'previous_secrets', 'disabled'] as const;
  const [current, previous, disabled] = await db.redis.hmget(key, ...fields);
  const isPrevious = (previous ?? '').split(',').some((one) => {
    const [secret, untilMs] = one.split(':');
    return secret === given && Number(untilMs) > nowOf(db);
  });
  return (current === given || isPrevious) && disabled !== '1';
}

export const randomSecret = (): string => randomBytes(32).toString('base64url');

/** SHA-256 is enough: the secret has 256 random bits and cannot be guessed. */
export const secretHash = (secret: string): string => hash('sha256', secret);
/** Identifies a secret in the audit, and cannot be used as the secret: the first 48 bits of its hash. */
export const fingerprintOf = (secret: string): string => secretHash(secret).slice(0, 12);

const clientIdOf = (accountId: string): string => accountId.replace(/^acc_/, 'cid_');
/** A malformed client id belongs to no account. */
export const accountIdOf = (clientId: string) => (isClientId(clientId) ? `acc_${clientId.slice(4)}` : 'acc_');
export const isClientId = (text: string): boolean => /^cid_[A-Za-z0-9_-]{1,64}$/.test(text);
