/**
 * Exports and imports a service's accounts, clients, registrations, notices URLs and secrets, as they are stored. Secrets leave
 * only in that form: an account's hashed, a signing secret encrypted if there is a `SECRETS_KEY`.
 * The history (known segments, owed assets, notifications) is not included.
 */
import type { Db } from '../connection/db.js';
import { evaluate, runScript, text } from '../connection/runScript.js';
import { script } from '../connection/script.js';

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

/** The fields of an endpoint that somebody decided; its health starts again. */
const decided = ['generation', 'paused', 'held'];

/** Accounts with their notices URLs, then clients, then registrations: the order of an import. */
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

/** Always in the same order, so that two exports can be compared. */
async function readFields(db: Db, key: string): Promise<Fields> {
  const fields = Object.entries(await db.redis.hgetall(key));
  return Object.fromEntries(fields.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** `new`: does not exist yet; `same`: nothing to do; `different`: exists in another form. */
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

/** Returns whether the client or account of a fact exists. */
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

/** Returns the fields of an endpoint that somebody decided. */
const decisionsOf = (endpoint: Fields): Fields => only(decided, endpoint);

function only(names: readonly string[], fields: Fields): Fields {
  return Object.fromEntries(
    Object.entries(fields).filter(([name, value]) => names.includes(name) && value !== ''),
  );
}

const prefixed = (registration: Fields, endpoint: Fields): Fields => ({
  ...registration,
  ...Object.fromEntries(Object.entries(endpoint).map(([name, value]) => [`endpoint.${name}`, value])),
});

/**
 * Writes a fact if nothing exists under its name, and completes an interrupted import. The script that writes compares
 * once more: a change made meanwhile (a registration, a rotated secret) is left alone.
 * @returns the same as `compareFact`; `different`: nothing was written
 */
export async function importFact(db: Db, fact: Fact): Promise<'new' | 'same' | 'different'> {
  switch (fact.type) {
    case 'account':
      return await importAccount(db, fact);
    case 'client':
      return await importClient(db, fact);
    case 'registration':
      return outcomeOf(
        await runScript(db, importRegistrationScript, fact.client_token, [
          JSON.stringify(fact.fields),
          JSON.stringify(fact.endpoint),
          JSON.stringify(decided),
        ]),
      );
  }
}

async function importAccount(db: Db, fact: Fact & { type: 'account' }) {
  const name = db.global.clientId(fact.fields.client_id ?? '');
  await db.redis.set(name, fact.account_id, 'NX');
  if ((await db.redis.get(name)) !== fact.account_id) return 'different';
  const key = db.global.account(fact.account_id);
  const outcome = outcomeOf(await evaluate(db, importAccountScript, [key], [JSON.stringify(fact.fields)]));
  if (outcome !== 'different') await db.redis.sadd(db.global.accounts, fact.account_id);
  return outcome;
}

async function importClient(db: Db, fact: Fact & { type: 'client' }) {
  const outcome = await importWithSecrets(db, fact.client_token, fact);
  if (outcome === 'different') return outcome;
  const account = fact.fields.account_id;
  if (account !== undefined && fact.fields.deleted === undefined) {
    await db.redis.sadd(db.global.accountClients(account), fact.client_token);
  }
  await db.redis.sadd(db.global.clients, fact.client_token);
  return outcome;
}

async function importWithSecrets(db: Db, owner: string, fact: Fact & { type: 'client' }) {
  const args = [fact.type, JSON.stringify(fact.fields), JSON.stringify(fact.signing_secrets)];
  return outcomeOf(await runScript(db, importWithSecretsScript, owner, args));
}

const outcomeOf = (answer: unknown) => text(answer) as 'new' | 'same' | 'different';

const importAccountScript = script('importAccount');
const importWithSecretsScript = script('importWithSecrets');
const importRegistrationScript = script('importRegistration');

function compare(stored: Fields, given: Fields): 'new' | 'same' | 'different' {
  const names = Object.keys(stored);
  if (names.length === 0) return Object.keys(given).length === 0 ? 'same' : 'new';
  const same =
    names.length === Object.keys(given).length && names.every((name) => stored[name] === given[name]);
  return same ? 'same' : 'different';
}
