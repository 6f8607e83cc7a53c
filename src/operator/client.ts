/** Clients, their bounds and their deletion. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { ClientToken } from '../ids.js';
import { originOf } from '../outgoing/target.js';
import { mapInPages } from '../promises.js';
import { unlessBroken } from '../redis/connection/unavailable.js';
import { type Client, createClient, listClients, setClient } from '../redis/records/clients.js';
import { clearDeletedClient, deleteClient } from '../redis/records/deletion.js';
import { endpointStates, getEndpoint } from '../redis/records/endpoint.js';
import { getRegistration } from '../redis/records/registrations.js';
import { createSecretBox } from '../redis/records/secretBox.js';
import { createSigningSecret } from '../redis/records/secrets.js';
import { type AddCommand, type Operator, requireAccount, requireClient } from './session.js';
import { parseClientToken, table } from './terminal.js';

export function addClientCommands(add: AddCommand): void {
  add('create', 'create a client', create)
    .requiredOption('--account <id>', 'account that owns the client')
    .requiredOption('--name <name>', 'name of the client')
    .option('--token <token>', 'client token (default: random)', parseClientToken);
  add('list', 'list every client with its state and URL, or those of one account, name or state', list)
    .option('--account <id>', 'only of this account')
    .option('--name <text>', 'only with this text in the name or the client token')
    .addOption(new Option('--state <state>', 'only in this state').choices(states));
  add('set <token>', "change a client's bounds", set)
    .option('--max-in-flight <n>', 'attempts in flight, or "default"', boundOrDefault)
    .option('--max-per-second <n>', 'attempts a second, or "default" (no limit)', boundOrDefault);
  add('delete <client-token>', 'delete a client for good, and cancel its owed notifications', remove);
}

const states = ['not_registered', ...endpointStates];

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
  await requireAccount(operator, account_id);
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

async function list(operator: Operator, wanted: { account?: string; name?: string; state?: string }) {
  const db = await operator.db();
  const text = wanted.name?.toLowerCase() ?? '';
  const found = (await listClients(db, wanted.account)).filter(({ name, clientToken }) =>
    `${name}\n${clientToken}`.toLowerCase().includes(text),
  );
  const all = await mapInPages(found, concurrency, async (client) => {
    const registration = await getRegistration(db, client.clientToken);
    const read = () => getEndpoint(db, client.clientToken);
    // A client with broken keys hides no other client; `status` names it.
    const endpoint = await unlessBroken(read, () => undefined);
    const state = registration ? (endpoint?.state ?? 'unreadable') : 'not_registered';
    return { ...present(client), state, owed: endpoint?.owed ?? null, url: registration?.url ?? null };
  });
  const clients = all.filter(({ state }) => wanted.state === undefined || state === wanted.state);
  const rows = clients.map((c) => [
    c.client_token,
    c.name,
    c.account_id,
    c.state,
    c.owed,
    c.url && new URL(c.url).host,
    c.max_in_flight,
    c.max_per_second,
  ]);
  const none = Object.keys(wanted).length === 0 ? 'There are no clients.' : 'No client matches.';
  const head = ['CLIENT', 'NAME', 'ACCOUNT', 'STATE', 'OWED', 'HOST', 'IN FLIGHT', 'PER SECOND'];
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
  // If this fails, the sweep finishes the deletion.
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
