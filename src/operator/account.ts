/** Accounts, their credentials and scopes, and links to their console. */
import { z } from 'zod';
import {
  createAccount,
  disableAccount,
  enableAccount,
  endConsole,
  makeConsoleLink,
  pauseAccount,
  resumeAccount,
  rotateClientSecret,
  setScopes,
} from '../acts/accounts.js';
import { hasPart } from '../acts/clients.js';
import { hostInUrl } from '../addresses.js';
import { integer, text, time, yesOrNo } from '../http/schemas.js';
import {
  type Account,
  accountIdOf,
  defaultScopes,
  findAccounts,
  getAccount,
  platformScope,
  signingSecretsScope,
} from '../redis/records/accounts.js';
import { getClient, listClients, readEach } from '../redis/records/clients.js';
import { accountId, filledText, flag, ifAbsent, nameText, newName } from './input.js';
import { actOperation, answer, cutPage, listed, type Operator, operation, Refused } from './operation.js';
import { requireAccount } from './subjects.js';
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
  paused: yesOrNo(false),
});
const client_secret = text('Zx0…', 'Shown only once.');
const shownOnce = 'The client_secret is shown only once: store it now.';

export const accountCreate = actOperation({
  act: createAccount,
  button: 'Create customer',
  does: 'create an account; its secret is shown only once',
  input: z.object({
    name: newName.describe('name of the company'),
    scope: scopeList
      .optional()
      .describe('several with blanks between, or each by itself (default: push_notifications)'),
    if_absent: ifAbsent,
  }),
  answers: account.omit({ disabled: true, paused: true }).extend({ client_secret: client_secret.optional() }),
  shown: (made) =>
    'client_secret' in made
      ? [...shownOf(made), shownOnce]
      : [`${made.name} (${made.account_id}) was there before.`],
});

export const accountList = operation({
  command: 'account list',
  does: 'list every account, the oldest first, without secrets',
  role: 'look',
  input: z.object({ name: filledText.optional().describe('only with this text in the name') }),
  answers: account,
  list: 'accounts',
  async run(operator, { name: wanted = '' }, asked) {
    const db = await operator.db();
    const found = await findAccounts(db, (name) => hasPart(name, wanted));
    const { page, next } = cutPage(found, asked, ({ createdAtMs, accountId }) => [createdAtMs, accountId]);
    const ids = page.map(({ accountId }) => accountId);
    const accounts = await readEach(ids, (id) => getAccount(db, id));
    const none =
      wanted === '' ? 'There are no accounts yet: account create --name NAME' : 'No account matches.';
    return listed(accounts.map(present), { none, next });
  },
});

export const accountShow = operation({
  command: 'account show <account-or-client>',
  does: 'show an account, found by its id, its client id or one of its clients',
  role: 'look',
  input: z.object({ account_or_client: filledText }),
  answers: account.extend({ clients: integer(3) }),
  async run(operator, { account_or_client: named }) {
    const found = await findAccount(operator, named);
    const clients = await listClients(await operator.db(), found.accountId);
    return answer({ ...present(found), clients: clients.length });
  },
});

export const accountRotateSecret = actOperation({
  act: rotateClientSecret,
  button: 'Replace client secret',
  group: 'Access',
  does: 'make a new client secret; the old one stays valid for 24 h',
  input: z.object({ account_id: accountId, now: flag('the old secret and every token end immediately') }),
  answers: account.pick({ account_id: true, client_id: true }).extend({ client_secret }),
  shown: (made, { now }) => [
    ...shownOf(made),
    `${shownOnce}\n${now ? 'The old secret and every token have ended.' : 'The old secret stays valid for 24 h.'}`,
  ],
});

export const accountSet = actOperation({
  act: setScopes,
  button: 'Change scopes',
  group: 'Access',
  does: 'replace the scopes of an account; removing one ends every token',
  input: z.object({
    account_id: accountId,
    scope: scopeList.describe(
      'every scope that it keeps or gets: several with blanks between, or each by itself',
    ),
  }),
  async inForce(operator, { account_id = '' }) {
    return { scope: (await requireAccount(operator, account_id)).scopes.join(' ') };
  },
  answers: account
    .pick({ account_id: true, scopes: true })
    .extend({ previous_scopes: account.shape.scopes, tokens_ended: yesOrNo(false) }),
  shown({ name, account_id, scopes, tokens_ended, isOther }) {
    const words = [`${name} (${account_id}) has the scopes ${scopes.join(' ')}.`];
    if (tokens_ended) words.push('Every token has ended.');
    if (isOther) words.push('Its URL for notices, if it had set one, is removed.');
    return [words.join(' ')];
  },
});

const switched = (act: typeof pauseAccount, button: string, does: string) =>
  actOperation({
    act,
    button,
    does,
    input: z.object({ account_id: accountId }),
    answers: account.pick({ account_id: true, disabled: true, paused: true }).extend({ clients: integer(3) }),
    shown: ({ name, account_id, disabled, paused, clients }) => [
      `${name} (${account_id}) is ${disabled ? 'disabled' : 'enabled'}${paused ? ' and paused' : ''}; clients: ${clients}.`,
    ],
  });

export const accountDisable = switched(
  disableAccount,
  'Disable',
  'end the tokens of an account and hold its clients like paused ones',
);
export const accountEnable = switched(
  enableAccount,
  'Enable',
  'let an account ask for tokens again; deliveries go on',
);
export const accountPause = switched(
  pauseAccount,
  'Pause all sites',
  'pause all deliveries of an account, also of clients that are created later',
);
export const accountResume = switched(
  resumeAccount,
  'Resume all sites',
  'end the pause of an account; a client that was paused by itself stays so',
);

export const consoleLink = operation({
  command: 'console <account-or-client>',
  button: 'Create console link',
  group: 'Access',
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

const present = ({ accountId: account_id, name, clientId: client_id, scopes, disabled, paused }: Account) => {
  return { account_id, name, client_id, scopes, disabled, paused };
};

/** Finds an account by its id, its client id or one of its clients. @throws Refused */
async function findAccount(operator: Operator, named: string): Promise<Account> {
  const db = await operator.db();
  for (const id of [named, accountIdOf(named), (await getClient(db, named))?.accountId]) {
    const account = id === undefined ? undefined : await getAccount(db, id);
    if (account !== undefined) return account;
  }
  throw new Refused(`There is no account and no client ${named}.`, 'unknown_account');
}
