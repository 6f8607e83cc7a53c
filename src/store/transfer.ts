/**
 * What makes a service: its accounts, clients, registrations and secrets, as they are stored. Secrets leave
 * only in that form: an account's hashed, a signing secret encrypted where there is a `SECRETS_KEY`.
 * What happened (known segments, what is owed, notifications) does not belong to it.
 */
import type { Db } from './db.js';
import { endpointLua } from './endpointLua.js';
import { clientScript, runScript } from './script.js';

type Fields = Record<string, string>;

export type Fact =
  | { type: 'account'; account_id: string; fields: Fields }
  | {
      type: 'client';
      client_token: string;
      fields: Fields;
      signing_secrets: Fields;
    }
  | {
      type: 'registration';
      client_token: string;
      fields: Fields;
      endpoint: Fields;
    };

/** Of an endpoint, only what somebody decided; its health is found out anew. */
const decided = ['generation', 'paused', 'held'];

/** Accounts, then clients, then registrations: in the order in which they are taken in. */
export async function* exportFacts(db: Db): AsyncGenerator<Fact> {
  const accounts = (await db.redis.smembers(db.global.accounts)).sort();
  const clients = (await db.redis.smembers(db.global.clients)).sort();
  for (const id of accounts) {
    const fields = await readFields(db, db.global.account(id));
    if (Object.keys(fields).length > 0) yield { type: 'account', account_id: id, fields };
  }
  for (const token of clients) {
    yield {
      type: 'client',
      client_token: token,
      fields: await readFields(db, db.client(token).client),
      signing_secrets: await readFields(db, db.client(token).signingSecrets),
    };
  }
  for (const token of clients) {
    const fields = await readFields(db, db.client(token).registration);
    const kept = decisionsOf(await readFields(db, db.client(token).endpoint));
    if (fields.url !== undefined || Object.keys(kept).length > 0) {
      yield { type: 'registration', client_token: token, fields, endpoint: kept };
    }
  }
}

/** In an order that is always the same: two exports can be compared. */
async function readFields(db: Db, key: string): Promise<Fields> {
  const fields = Object.entries(await db.redis.hgetall(key));
  return Object.fromEntries(fields.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** `new`: not there yet; `same`: nothing to do; `different`: something else has its name. */
export async function compareFact(db: Db, fact: Fact): Promise<'new' | 'same' | 'different'> {
  switch (fact.type) {
    case 'account': {
      const owner = await db.redis.get(db.global.clientId(fact.fields.client_id ?? ''));
      if (owner !== null && owner !== fact.account_id) return 'different';
      return compare(await db.redis.hgetall(db.global.account(fact.account_id)), fact.fields);
    }
    case 'client': {
      const keys = db.client(fact.client_token);
      const found = compare(await db.redis.hgetall(keys.client), fact.fields);
      if (found !== 'same') return found;
      const secrets = compare(await db.redis.hgetall(keys.signingSecrets), fact.signing_secrets);
      return secrets === 'new' ? 'different' : secrets;
    }
    case 'registration': {
      const keys = db.client(fact.client_token);
      const stored = await db.redis.hgetall(keys.registration);
      const endpoint = decisionsOf(await db.redis.hgetall(keys.endpoint));
      return compare(prefixed(stored, endpoint), prefixed(fact.fields, fact.endpoint));
    }
  }
}

/** Whether the client or account that a fact belongs to is there. */
export async function hasOwner(db: Db, fact: Fact): Promise<boolean> {
  switch (fact.type) {
    case 'account':
      return true;
    case 'client':
      return (await db.redis.exists(db.global.account(fact.fields.account_id ?? ''))) === 1;
    case 'registration':
      return (await db.redis.exists(db.client(fact.client_token).client)) === 1;
  }
}

/** Of an endpoint what somebody decided. */
function decisionsOf(endpoint: Fields): Fields {
  return Object.fromEntries(
    Object.entries(endpoint).filter(([name, value]) => decided.includes(name) && value !== ''),
  );
}

const prefixed = (registration: Fields, endpoint: Fields): Fields => ({
  ...registration,
  ...Object.fromEntries(Object.entries(endpoint).map(([name, value]) => [`endpoint.${name}`, value])),
});

/** Safe to repeat: what a crash cut short is completed. */
export async function importFact(db: Db, fact: Fact): Promise<void> {
  switch (fact.type) {
    case 'account':
      await db.redis.hset(db.global.account(fact.account_id), fact.fields);
      await db.redis.set(db.global.clientId(fact.fields.client_id ?? ''), fact.account_id);
      await db.redis.sadd(db.global.accounts, fact.account_id);
      return;
    case 'client':
      await importClient(db, fact);
      return;
    case 'registration':
      await runScript(db, importRegistrationScript, fact.client_token, [
        JSON.stringify(fact.fields),
        JSON.stringify(fact.endpoint),
      ]);
      return;
  }
}

async function importClient(db: Db, fact: Fact & { type: 'client' }): Promise<void> {
  const keys = db.client(fact.client_token);
  if (Object.keys(fact.signing_secrets).length > 0) {
    await db.redis.hset(keys.signingSecrets, fact.signing_secrets);
  }
  if (Object.keys(fact.fields).length > 0) await db.redis.hset(keys.client, fact.fields);
  const account = fact.fields.account_id;
  if (account !== undefined && fact.fields.deleted === undefined) {
    await db.redis.sadd(db.global.accountClients(account), fact.client_token);
  }
  await db.redis.sadd(db.global.clients, fact.client_token);
}

/** ARGV: the registration's fields, the endpoint's, both JSON. The client's clock starts to run with the URL. */
const importRegistrationScript = clientScript(
  `
local registration = cjson.decode(ARGV[2])
local endpoint = cjson.decode(ARGV[3])
local from = seen()
for name, value in pairs(registration) do redis.call('HSET', base .. 'registration', name, value) end
for name, value in pairs(endpoint) do redis.call('HSET', E, name, value) end
sync_clock()
note_change(from, 'imported', 'operator')
return 1
`,
  endpointLua,
);

function compare(stored: Fields, given: Fields): 'new' | 'same' | 'different' {
  const names = Object.keys(stored);
  if (names.length === 0) return Object.keys(given).length === 0 ? 'same' : 'new';
  const same =
    names.length === Object.keys(given).length && names.every((name) => stored[name] === given[name]);
  return same ? 'same' : 'different';
}
