/** Clients: their bounds, their end, and their signing secrets. */
import { type Command, InvalidArgumentError } from 'commander';
import type { ClientToken } from '../ids.js';
import { originOf } from '../outgoing/target.js';
import { mapInPages } from '../promises.js';
import { unlessBroken } from '../redis/connection/unavailable.js';
import { type Client, createClient, listClients, setClient } from '../redis/records/clients.js';
import { clearDeletedClient, deleteClient } from '../redis/records/deletion.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { getRegistration } from '../redis/records/registrations.js';
import { createSecretBox } from '../redis/records/secretBox.js';
import {
  createSigningSecret,
  reencryptSigningSecrets,
  replaceSigningSecret,
  rotateSigningSecret,
} from '../redis/records/secrets.js';
import { type AddCommand, type Operator, Refused, requireClient } from './session.js';
import { moment, parseClientToken, span, table } from './terminal.js';

export function addClientCommands(add: AddCommand): void {
  add('create', 'create a client', create)
    .requiredOption('--account <id>', 'account that owns the client')
    .requiredOption('--name <name>', 'name of the client')
    .option('--token <token>', 'client token (default: random)', parseClientToken);
  add('list', 'list every client with its state and URL, or those of one account or name', list)
    .option('--account <id>', 'only of this account')
    .option('--name <text>', 'only with this text in the name or the client token');
  add('set <token>', "change a client's bounds", set)
    .option('--max-in-flight <n>', 'attempts in flight, or "default"', boundOrDefault)
    .option('--max-per-second <n>', 'attempts a second, or "default" (no limit)', boundOrDefault);
  add('delete <client-token>', 'delete a client for good, and cancel its owed notifications', remove);
}

export function addSecretsCommands(add: AddCommand): void {
  const all = 'encrypt all signing secrets and request headers with the first key of SECRETS_KEY';
  add('reencrypt', all, reencrypt);
  const one = "replace a client's signing secret; the old one also signs for 24 h";
  add('rotate <token>', one, rotate).option('--now', 'the old one and every earlier one end immediately');
}

/** With `default` the service's own bound applies again. */
type Bound = number | 'default';

function boundOrDefault(text: string): Bound {
  if (text === 'default') return text;
  const n = Number(text);
  if (Number.isSafeInteger(n) && n >= 1) return n;
  throw new InvalidArgumentError('Give a whole number of at least 1, or "default".');
}

async function create(operator: Operator, wanted: { account: string; name: string; token?: ClientToken }) {
  const box = createSecretBox(operator.config().SECRETS_KEY);
  const { account: account_id, name, token } = wanted;
  const { clientToken } = await operator.change(async (db) => {
    const made = await createClient(db, { accountId: account_id, name, clientToken: token });
    await createSigningSecret(db, box, made.clientToken);
    return made;
  });
  await operator.record('client create', clientToken, null, { account_id, name });
  operator.answer({ client_token: clientToken, account_id, name });
}

/** Clients read at the same time. */
const concurrency = 100;

async function list(operator: Operator, wanted: { account?: string; name?: string }) {
  const db = await operator.db();
  const text = wanted.name?.toLowerCase() ?? '';
  const found = (await listClients(db, wanted.account)).filter(({ name, clientToken }) =>
    `${name}\n${clientToken}`.toLowerCase().includes(text),
  );
  const clients = await mapInPages(found, concurrency, async (client) => {
    const registration = await getRegistration(db, client.clientToken);
    const read = () => getEndpoint(db, client.clientToken);
    // The broken keys of one client hide no other: `status` names it.
    const endpoint = registration && (await unlessBroken(read, () => undefined));
    const state = registration ? (endpoint?.state ?? 'unreadable') : 'not_registered';
    return { ...present(client), state, url: registration?.url ?? null };
  });
  const rows = clients.map((c) => [
    ...[c.client_token, c.name, c.account_id, c.state, c.url && new URL(c.url).host],
    ...[c.max_in_flight, c.max_per_second],
  ]);
  const none = text === '' ? 'There are no clients.' : `No client is named like "${wanted.name}".`;
  const head = ['CLIENT', 'NAME', 'ACCOUNT', 'STATE', 'HOST', 'IN FLIGHT', 'PER SECOND'];
  operator.answer(clients, table(head, rows, none));
}

async function set(
  operator: Operator,
  token: ClientToken,
  { maxInFlight, maxPerSecond }: { maxInFlight?: Bound; maxPerSecond?: Bound },
  command: Command,
) {
  if (maxInFlight === undefined && maxPerSecond === undefined) {
    command.error('Give --max-in-flight, --max-per-second, or both.');
  }
  const before = present(await requireClient(operator, token));
  const stored = (bound: Bound | undefined) => (bound === 'default' ? null : bound);
  const wanted = { maxInFlight: stored(maxInFlight), maxPerSecond: stored(maxPerSecond) };
  const after = present(await operator.change((db) => setClient(db, token, wanted)));
  const boundsOf = ({ max_in_flight, max_per_second }: typeof after) => ({ max_in_flight, max_per_second });
  await operator.record('client set', token, boundsOf(before), boundsOf(after));
  operator.answer(after);
}

async function remove(operator: Operator, token: ClientToken) {
  const before = present(await requireClient(operator, token));
  const db = await operator.db();
  const registration = await getRegistration(db, token);
  await operator.change((own) => deleteClient(own, token));
  const url = registration && originOf(registration.url);
  await operator.record('client delete', token, { ...before, url }, null);
  // If this fails, the sweep finishes it.
  const { cancelled } = await clearDeletedClient(db, token);
  const answer = { client_token: token, deleted: true, removed_url: registration?.url, cancelled };
  operator.answer(answer, `${token} is deleted. Owed notifications cancelled: ${cancelled}.`);
}

function present(client: Client) {
  return {
    client_token: client.clientToken,
    account_id: client.accountId,
    name: client.name,
    max_in_flight: client.maxInFlight ?? null,
    max_per_second: client.maxPerSecond ?? null,
  };
}

async function reencrypt(operator: Operator) {
  const keys = operator.config().SECRETS_KEY;
  const key_id = keys?.[0]?.id;
  if (key_id === undefined) throw new Refused('SECRETS_KEY is not set: there is no key to encrypt with.');
  const counts = await reencryptSigningSecrets(await operator.db(), createSecretBox(keys));
  const { reencrypted, unchanged, unreadable } = counts;
  await operator.record('secrets reencrypt', key_id, null, { reencrypted, unreadable });
  if (unreadable.length > 0) {
    throw new Refused(
      `${reencrypted} are now encrypted with the key "${key_id}". SECRETS_KEY has no key for the secrets of: ` +
        unreadable.join(', '),
    );
  }
  operator.answer(
    { key_id, reencrypted, unchanged },
    `${reencrypted} signing secrets and request headers are now encrypted with the key "${key_id}"; ` +
      `${unchanged} were already.`,
  );
}

async function rotate(operator: Operator, token: ClientToken, { now = false }: { now?: boolean }) {
  await requireClient(operator, token);
  const { previous_valid_until, old } = await rotateSecret(operator, token, now);
  await operator.record('secrets rotate', token, null, { old_ones_end: now ? 'now' : 'in 24 h' });
  const readBy = 'its publisher reads it with GET /push_notifications/signing_secret';
  const said = `${token} has a new signing secret; ${readBy}. ${old}`;
  operator.answer({ client_token: token, previous_valid_until }, said);
}

/**
 * Replaces a signing secret.
 * @param now also ends every earlier secret
 * @returns until when the old one also signs, ISO 8601 (null if it has ended), and the same in words
 * @throws Refused while ten earlier ones still sign
 */
export async function rotateSecret(operator: Operator, clientToken: string, now: boolean) {
  const box = createSecretBox(operator.config().SECRETS_KEY);
  if (now) {
    await operator.change((db) => replaceSigningSecret(db, box, clientToken));
    return { previous_valid_until: null, old: 'Every earlier one has ended.' };
  }
  const done = await operator.change((db) => rotateSigningSecret(db, box, clientToken));
  if (done.outcome === 'rotated') {
    const previous_valid_until = moment(done.previousValidUntilMs);
    return { previous_valid_until, old: 'The old one also signs for 24 h.' };
  }
  throw new Refused(
    `Ten earlier signing secrets of ${clientToken} still sign; the oldest ends in ${span(done.waitMs)}. ` +
      'With --now all of them end immediately.',
  );
}
