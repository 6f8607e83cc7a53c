import {
  type Account,
  createAccount,
  listAccounts,
  rotateSecret,
  setDisabled,
  setScopes,
} from '../../redis/records/accounts.js';
import { listClients } from '../../redis/records/clients.js';
import type { Operator } from '../operator.js';
import { requireAccount } from '../requireAccount.js';
import { facts, table } from '../terminal/table.js';

export async function accountCreate(
  operator: Operator,
  wanted: { name: string; scope?: string[]; platform?: boolean },
): Promise<void> {
  const { name: given, scope = [], platform = false } = wanted;
  const created = await operator.change((db) => createAccount(db, { name: given, scopes: scope, platform }));
  const { account_id, name, client_id, client_secret, scopes } = created;
  await operator.record({
    what: 'account create',
    target: account_id,
    before: null,
    after: { name, client_id, scopes },
  });
  operator.answer({ account_id, name, client_id, client_secret, scopes }, () =>
    [
      facts({ account_id, name, client_id, client_secret, scopes: scopes.join(' ') }),
      '',
      'The client_secret is shown only once: store it now.',
    ].join('\n'),
  );
}

export async function accountList(operator: Operator): Promise<void> {
  const accounts = (await listAccounts(await operator.db())).map(present);
  operator.answer(accounts, () =>
    table(
      ['ACCOUNT', 'NAME', 'CLIENT ID', 'SCOPES', 'STATE'],
      accounts.map((a) => [
        a.account_id,
        a.name,
        a.client_id,
        a.scopes.join(' '),
        a.disabled ? 'disabled' : 'enabled',
      ]),
      'There are no accounts yet: account create --name NAME',
    ),
  );
}

export async function accountRotateSecret(
  operator: Operator,
  id: string,
  { now = false }: { now?: boolean },
): Promise<void> {
  const { clientId } = await requireAccount(operator, id);
  const { client_secret } = await operator.change((db) => rotateSecret(db, id, { now }));
  await operator.record({
    what: 'account rotate-secret',
    target: id,
    before: null,
    after: { old_one_ends: now ? 'now' : 'in 24 h' },
  });
  const rotated = { account_id: id, client_id: clientId, client_secret };
  operator.answer(rotated, () =>
    [
      facts(rotated),
      '',
      now ? 'The old secret and every token have ended.' : 'The old secret stays valid for 24 h.',
      'The client_secret is shown only once: store it now.',
    ].join('\n'),
  );
}

export async function accountSet(
  operator: Operator,
  id: string,
  { scope }: { scope: string[] },
): Promise<void> {
  const before = await requireAccount(operator, id);
  const scopes = [...new Set(scope)];
  await operator.change((db) => setScopes(db, id, scopes));
  await operator.record({
    what: 'account set',
    target: id,
    before: { scopes: before.scopes },
    after: { scopes },
  });
  const ended = before.scopes.some((had) => !scopes.includes(had));
  operator.answer(
    { account_id: id, previous_scopes: before.scopes, scopes, tokens_ended: ended },
    () =>
      `${before.name} (${id}) has the scopes ${scopes.join(' ')}.${ended ? ' Every token has ended.' : ''}`,
  );
}

export async function accountSwitch(
  operator: Operator,
  id: string,
  verb: 'disable' | 'enable',
): Promise<void> {
  const disabled = verb === 'disable';
  const before = await requireAccount(operator, id);
  await operator.change((db) => setDisabled(db, id, disabled));
  await operator.record({
    what: `account ${verb}`,
    target: id,
    before: { disabled: before.disabled },
    after: { disabled },
  });
  const clients = await listClients(await operator.db(), id);
  for (const { clientToken } of clients) await operator.wake(clientToken);
  operator.answer(
    { account_id: id, disabled, clients: clients.length },
    () => `${before.name} (${id}) is ${disabled ? 'disabled' : 'enabled'}; clients: ${clients.length}.`,
  );
}

function present(account: Account) {
  return {
    account_id: account.accountId,
    name: account.name,
    client_id: account.clientId,
    scopes: account.scopes,
    disabled: account.disabled,
  };
}
