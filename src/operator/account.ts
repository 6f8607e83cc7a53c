/** Accounts, their credentials and scopes, and links to their console. */
import { z } from 'zod';
import { hasPart } from '../acts/clients.js';
import { endConsole, makeConsoleLink } from '../acts/console.js';
import { hostInUrl } from '../addresses.js';
import { integer, text, time, yesOrNo } from '../http/schemas.js';
import {
  type Account,
  accountIdOf,
  createAccount,
  defaultScopes,
  getAccount,
  listAccounts,
  platformScope,
  rotateSecret,
  setDisabled,
  setScopes,
  signingSecretsScope,
} from '../redis/records/accounts.js';
import { getClient } from '../redis/records/clients.js';
import { accountId, filledText, flag, ifAbsent, nameText, newName } from './input.js';
import { answer, cutPage, listed, type Operator, operation, Refused } from './operation.js';
import { shownOf } from './terminal.js';

const scopes: readonly string[] = [...defaultScopes, platformScope, signingSecretsScope];
/** Refuses an unknown scope, which would only take the others away from an account and end its tokens. */
const scopeList = z.preprocess(
  (given) => (typeof given === 'string' ? given.split(/[\s,]+/).filter(Boolean) : given),
  z
    .array(z.enum(scopes, `The scopes are ${scopes.join(', ')}.`))
    .min(1, 'must not be empty')
    .transform((list) => [...new Set(list)]),
);

const account = z.object({
  account_id: accountId,
  name: nameText,
  client_id: text('cid_7Qd2mVx0aB1c'),
  scopes: z.array(z.enum(scopes)),
  disabled: yesOrNo(false),
});
const client_secret = text('Zx0…', 'Shown only once.');
const shownOnce = 'The client_secret is shown only once: store it now.';

export const accountCreate = operation({
  command: 'account create',
  does: 'create an account; its secret is shown only once',
  role: 'admin',
  input: z.object({
    name: newName.describe('name of the company'),
    scope: scopeList
      .optional()
      .describe('several with blanks between, or each by itself (default: push_notifications)'),
    if_absent: ifAbsent,
  }),
  answers: account.omit({ disabled: true }).extend({ client_secret: client_secret.optional() }),
  async run(operator, { name, scope, if_absent: ifAbsent }) {
    const { isNew, namesake, ...created } = await operator.change((db) =>
      createAccount(db, { name, scopes: scope, ifAbsent }, ({ account_id, ...about }) =>
        operator.record('account create', account_id, null, about),
      ),
    );
    const { account_id, client_id } = created;
    if (!isNew) {
      const { scopes } = await requireAccount(operator, account_id);
      return answer({ account_id, name, client_id, scopes }, `${name} (${account_id}) was there before.`);
    }
    if (namesake !== undefined) operator.warn(`An account of this name was there before: ${namesake}.`);
    return answer(created, ...shownOf(created), shownOnce);
  },
});

export const accountList = operation({
  command: 'account list',
  does: 'list every account, without secrets',
  role: 'look',
  input: z.object({ name: filledText.optional().describe('only with this text in the name') }),
  answers: account,
  list: 'accounts',
  async run(operator, { name: wanted = '' }, asked) {
    const all = await listAccounts(await operator.db());
    const found = all.filter(({ name }) => hasPart(name, wanted));
    const { page, next } = cutPage(found, asked, ({ accountId }) => accountId);
    const accounts = page.map(({ accountId: account_id, name, clientId: client_id, scopes, disabled }) => {
      return { account_id, name, client_id, scopes, disabled };
    });
    const none =
      all.length > 0 ? 'No account matches.' : 'There are no accounts yet: account create --name NAME';
    return listed(accounts, { none, next });
  },
});

export const accountRotateSecret = operation({
  command: 'account rotate-secret <id>',
  does: 'make a new client secret; the old one stays valid for 24 h',
  role: 'admin',
  input: z.object({ account_id: accountId, now: flag('the old secret and every token end immediately') }),
  answers: account.pick({ account_id: true, client_id: true }).extend({ client_secret }),
  async run(operator, { account_id, now }) {
    const { clientId } = await requireAccount(operator, account_id);
    const about = { old_one_ends: now ? 'now' : 'in 24 h' };
    await operator.record('account rotate-secret', account_id, null, about);
    const { client_secret } = await operator.change((db) => rotateSecret(db, account_id, { now }));
    const rotated = { account_id, client_id: clientId, client_secret };
    const old = now ? 'The old secret and every token have ended.' : 'The old secret stays valid for 24 h.';
    return answer(rotated, ...shownOf(rotated), `${shownOnce}\n${old}`);
  },
});

export const accountSet = operation({
  command: 'account set <id>',
  does: 'replace the scopes of an account; removing one ends every token',
  role: 'admin',
  input: z.object({
    account_id: accountId,
    scope: scopeList.describe(
      'every scope that it keeps or gets: several with blanks between, or each by itself',
    ),
  }),
  answers: account
    .pick({ account_id: true, scopes: true })
    .extend({ previous_scopes: account.shape.scopes, tokens_ended: yesOrNo(false) }),
  async run(operator, { account_id, scope: scopes }) {
    const before = await requireAccount(operator, account_id);
    await operator.record('account set', account_id, { scopes: before.scopes }, { scopes });
    await operator.change((db) => setScopes(db, account_id, scopes));
    const tokens_ended = before.scopes.some((had) => !scopes.includes(had));
    const becomesAnother = before.scopes.includes(platformScope) !== scopes.includes(platformScope);
    const words = [`${before.name} (${account_id}) has the scopes ${scopes.join(' ')}.`];
    if (tokens_ended) words.push('Every token has ended.');
    if (becomesAnother) words.push('Its URL for notices, if it had set one, is removed.');
    return answer({ account_id, previous_scopes: before.scopes, scopes, tokens_ended }, words.join(' '));
  },
});

export const accountDisable = switched(
  'end the tokens of an account and hold its clients like paused ones',
  true,
);
export const accountEnable = switched('let an account ask for tokens again; deliveries go on', false);

function switched(does: string, disabled: boolean) {
  const name = `account ${disabled ? 'disable' : 'enable'}`;
  return operation({
    command: `${name} <id>`,
    does,
    role: 'admin',
    input: z.object({ account_id: accountId }),
    answers: z.object({ account_id: accountId, disabled: yesOrNo(disabled), clients: integer(3) }),
    async run(operator, { account_id }) {
      const before = await requireAccount(operator, account_id);
      await operator.record(name, account_id, { disabled: before.disabled }, { disabled });
      const clients = await operator.change((db) => setDisabled(db, account_id, disabled));
      // One warning is enough: where Temporal does not answer, the sweep wakes all.
      for (const { clientToken } of clients) if (!(await operator.wake(clientToken))) break;
      return answer(
        { account_id, disabled, clients: clients.length },
        `${before.name} (${account_id}) is ${disabled ? 'disabled' : 'enabled'}; clients: ${clients.length}.`,
      );
    },
  });
}

export const consoleLink = operation({
  command: 'console <account-or-client>',
  does: "create a link that opens an account's console once, within 15 minutes",
  input: z.object({
    account_or_client: filledText,
    read: flag('the session may only look, not change or send anything'),
    end: flag('end every session and unused link of the account instead'),
  }),
  answers: z.object({
    account_id: accountId,
    access: text('full').optional(),
    url: text('https://notifications.example.com/console/open#dG9rZW4').optional(),
    expires_at: time().optional(),
    ended: yesOrNo(true).optional(),
  }),
  acts: [makeConsoleLink, endConsole],
  async run(operator, { account_or_client: named, read, end }) {
    const account = await findAccount(operator, named);
    if (end)
      return answer(await endConsole(operator, account), 'Every session and link of the account has ended.');
    const { PUBLIC_URL, HOST, PORT } = operator.config();
    const { origin } = new URL(PUBLIC_URL ?? `http://${hostInUrl(HOST)}:${PORT}`);
    const access = read ? 'read' : 'full';
    return answer(await makeConsoleLink(operator, { ...account, access, origin }));
  },
});

/** @throws Refused if there is no such account */
export async function requireAccount(operator: Operator, id: string): Promise<Account> {
  const account = await getAccount(await operator.db(), id);
  if (account === undefined) throw new Refused(`There is no account ${id}.`, 'unknown_account');
  return account;
}

/** Finds an account by its id, its client id or one of its clients. @throws Refused */
async function findAccount(operator: Operator, named: string): Promise<Account> {
  const db = await operator.db();
  const ids = [named, accountIdOf(named), (await getClient(db, named))?.accountId];
  for (const id of ids) {
    const account = id === undefined ? undefined : await getAccount(db, id);
    if (account !== undefined) return account;
  }
  throw new Refused(`There is no account and no client ${named}.`, 'unknown_account');
}
