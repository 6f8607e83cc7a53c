import type { Command } from 'commander';
import type { ClientToken } from '../../ids.js';
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
import { urlWithoutQuery } from '../../urlWithoutQuery.js';
import type { Operator } from '../operator.js';
import { requireClient } from '../requireClient.js';
import { facts, table } from '../terminal/table.js';

export async function clientCreate(
  operator: Operator,
  wanted: { account: string; name: string; token?: ClientToken },
): Promise<void> {
  const db = await operator.db();
  const created = await createClient(db, {
    accountId: wanted.account,
    name: wanted.name,
    clientToken: wanted.token,
  });
  await createSigningSecret(db, createSecretBox(operator.config().SECRETS_KEY), created.clientToken);
  const answer = {
    client_token: created.clientToken,
    account_id: created.accountId,
    name: created.name,
  };
  await operator.record({
    what: 'client create',
    target: answer.client_token,
    before: null,
    after: { account_id: answer.account_id, name: answer.name },
  });
  operator.answer(answer, () => facts(answer));
}

export async function clientList(operator: Operator, { account }: { account?: string }): Promise<void> {
  const clients = (await listClients(await operator.db(), account)).map(present);
  operator.answer(clients, () =>
    table(
      ['CLIENT', 'NAME', 'ACCOUNT', 'IN FLIGHT', 'PER SECOND'],
      clients.map((c) => [c.client_token, c.name, c.account_id, c.max_in_flight, c.max_per_second]),
      'There are no clients.',
    ),
  );
}

export async function clientSet(
  operator: Operator,
  token: ClientToken,
  bounds: { maxInFlight?: Bound; maxPerSecond?: Bound },
  command: Command,
): Promise<void> {
  if (bounds.maxInFlight === undefined && bounds.maxPerSecond === undefined) {
    command.error('error: give --max-in-flight, --max-per-second, or both');
  }
  const before = present(await requireClient(operator, token));
  const after = present(
    await setClient(await operator.db(), token, {
      maxInFlight: bounds.maxInFlight?.n,
      maxPerSecond: bounds.maxPerSecond?.n,
    }),
  );
  await operator.record({
    what: 'client set',
    target: token,
    before: boundsOf(before),
    after: boundsOf(after),
  });
  operator.answer(after, () => facts(after));
}

export async function clientDelete(operator: Operator, token: ClientToken): Promise<void> {
  const before = present(await requireClient(operator, token));
  const db = await operator.db();
  const registration = await getRegistration(db, token);
  await deleteClient(db, token);
  await operator.record({
    what: 'client delete',
    target: token,
    before: { ...before, url: registration && urlWithoutQuery(registration.url) },
    after: null,
  });
  // If this fails, the sweep finishes it.
  const { cancelled } = await clearDeletedClient(db, token);
  const answer = {
    client_token: token,
    deleted: true,
    removed_url: registration?.url,
    cancelled,
  };
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

function boundsOf({ max_in_flight, max_per_second }: ReturnType<typeof present>) {
  return { max_in_flight, max_per_second };
}

/** null: the service's default applies. */
export interface Bound {
  n: number | null;
}
