import { type Command, InvalidArgumentError } from 'commander';
import type { ClientToken } from '../../ids.js';
import { originOf } from '../../outgoing/target.js';
import {
  type Client,
  createClient,
  deleteClient,
  listClients,
  setClient,
} from '../../redis/records/clients.js';
import { clearDeletedClient } from '../../redis/records/deletion.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { createSecretBox } from '../../redis/records/secretBox.js';
import { createSigningSecret } from '../../redis/records/signingSecrets.js';
import { parseClientToken } from '../arguments.js';
import { type AddCommand, type Operator, requireClient } from '../operator.js';
import { facts, table } from '../terminal/table.js';

export function addClientCommands(add: AddCommand): void {
  add('create', 'create a client', create)
    .requiredOption('--account <id>', 'account that owns the client')
    .requiredOption('--name <name>', 'name of the client')
    .option('--token <token>', 'client token (default: random)', parseClientToken);
  add('list', 'list every client, or those of one account', list).option(
    '--account <id>',
    'only of this account',
  );
  add('set <token>', "change a client's bounds", set)
    .option('--max-in-flight <n>', 'attempts in flight, or "default"', boundOrDefault)
    .option('--max-per-second <n>', 'attempts a second, or "default" (no limit)', boundOrDefault);
  add('delete <client-token>', 'delete a client for good, and cancel its owed notifications', remove);
}

function boundOrDefault(text: string): Bound {
  if (text === 'default') return { n: null };
  const n = Number(text);
  if (!Number.isSafeInteger(n) || n < 1) {
    throw new InvalidArgumentError('Give a whole number of at least 1, or "default".');
  }
  return { n };
}

async function create(
  operator: Operator,
  wanted: { account: string; name: string; token?: ClientToken },
): Promise<void> {
  const box = createSecretBox(operator.config().SECRETS_KEY);
  const created = await operator.change(async (db) => {
    const { account: accountId, name, token: clientToken } = wanted;
    const made = await createClient(db, { accountId, name, clientToken });
    await createSigningSecret(db, box, made.clientToken);
    return made;
  });
  const { clientToken, accountId: account_id, name } = created;
  await operator.record('client create', clientToken, null, { account_id, name });
  const answer = { client_token: clientToken, account_id, name };
  operator.answer(answer, () => facts(answer));
}

async function list(operator: Operator, { account }: { account?: string }): Promise<void> {
  const clients = (await listClients(await operator.db(), account)).map(present);
  operator.answer(clients, () =>
    table(
      ['CLIENT', 'NAME', 'ACCOUNT', 'IN FLIGHT', 'PER SECOND'],
      clients.map((c) => [c.client_token, c.name, c.account_id, c.max_in_flight, c.max_per_second]),
      'There are no clients.',
    ),
  );
}

async function set(
  operator: Operator,
  token: ClientToken,
  bounds: { maxInFlight?: Bound; maxPerSecond?: Bound },
  command: Command,
): Promise<void> {
  if (bounds.maxInFlight === undefined && bounds.maxPerSecond === undefined) {
    command.error('error: give --max-in-flight, --max-per-second, or both');
  }
  const before = present(await requireClient(operator, token));
  const wanted = { maxInFlight: bounds.maxInFlight?.n, maxPerSecond: bounds.maxPerSecond?.n };
  const client = await operator.change((db) => setClient(db, token, wanted));
  const after = present(client);
  const boundsOf = ({ max_in_flight, max_per_second }: typeof after) => ({ max_in_flight, max_per_second });
  await operator.record('client set', token, boundsOf(before), boundsOf(after));
  operator.answer(after, () => facts(after));
}

async function remove(operator: Operator, token: ClientToken): Promise<void> {
  const before = present(await requireClient(operator, token));
  const db = await operator.db();
  const registration = await getRegistration(db, token);
  await operator.change((own) => deleteClient(own, token));
  const url = registration && originOf(registration.url);
  await operator.record('client delete', token, { ...before, url }, null);
  // If this fails, the sweep finishes it.
  const { cancelled } = await clearDeletedClient(db, token);
  const answer = { client_token: token, deleted: true, removed_url: registration?.url, cancelled };
  operator.answer(answer, () => `${token} is deleted. Owed notifications cancelled: ${cancelled}.`);
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

/** null: the service's default applies. */
export interface Bound {
  n: number | null;
}
