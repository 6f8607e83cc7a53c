/** Accounts: created, with other credentials or scopes, disabled and enabled, paused and resumed; links to their console. */
import { ApiError, refused } from '../http/apiError.js';
import type { Db } from '../redis/connection/db.js';
import {
  type Account,
  createAccount as createRecord,
  defaultScopes,
  getAccount,
  platformScope,
  rotateSecret,
  setScopes as setRecord,
  setStopped,
} from '../redis/records/accounts.js';
import { getClient } from '../redis/records/clients.js';
import { readSite } from '../redis/records/endpoint.js';
import { noticesRecipient } from '../redis/records/notices.js';
import type { Role } from '../redis/records/operatorAccess.js';
import { type ConsoleGrant, consoleSessions, endConsoleSessions } from '../redis/records/sessions.js';
import { act, admin, anyOrSupport, support } from './act.js';
import { presentTime } from './present.js';
import { sayFarewell } from './registrations.js';

type About = { account: Account };

interface NewAccount {
  name: string;
  scope?: string[] | undefined;
  /** Answers an account of this name that was there before. */
  if_absent: boolean;
}

/** Creates an account; only this answer has its secret. */
export const createAccount = act('account create', admin, async (actor, given: NewAccount, admit) => {
  const { name, scope: scopes, if_absent: ifAbsent } = given;
  const { isNew, namesake, client_secret, ...made } = await actor.change((db) =>
    createRecord(db, { name, scopes, ifAbsent }, ({ account_id: target, ...after }) =>
      admit({ target, after }),
    ),
  );
  if (!isNew) {
    const { scopes = [] } = (await getAccount(await actor.db(), made.account_id)) ?? {};
    return { ...made, scopes };
  }
  if (namesake !== undefined) actor.warn(`An account of this name was there before: ${namesake}.`);
  return { ...made, client_secret };
});

/** Makes a new client secret. The old one stays valid for 24 h; with `now` it ends immediately, like every token. */
export const rotateClientSecret = act(
  'account rotate-secret',
  admin,
  async (actor, { account, now }: About & { now: boolean }, admit) => {
    const { accountId: target, clientId: client_id } = account;
    await admit({ target, after: { old_one_ends: now ? 'now' : 'in 24 h' } });
    const made = await actor.change((db) => rotateSecret(db, target, { now }));
    return { account_id: target, client_id, ...made };
  },
);

/** Replaces the scopes of an account. If one is removed, every token ends. */
export const setScopes = act(
  'account set',
  admin,
  async (actor, { account, scope: scopes }: About & { scope: string[] }, admit) => {
    const { accountId: target, name, scopes: known } = account;
    const isOther = known.includes(platformScope) !== scopes.includes(platformScope);
    const db = await actor.db();
    const lost = isOther ? await noticesOf(db, account) : undefined;
    const notices = lost && (await readSite(db, lost));
    const cancels = notices?.health?.owed;
    await admit({ target, before: { scopes: known }, after: { scopes }, cancels });
    if (notices?.registration) await sayFarewell(actor, notices, notices.registration.url, null);
    // Another operator may have changed them since they were read.
    const before = await actor.change((db) => setRecord(db, target, scopes));
    const tokens_ended = before.some((had) => !scopes.includes(had));
    return { account_id: target, name, previous_scopes: before, scopes, tokens_ended, isOther };
  },
);

/** Finds the client that gets the notices of an account; that of the platform if this account has set its URL. */
async function noticesOf(db: Db, account: Account) {
  const client = await getClient(db, noticesRecipient(account));
  return client?.accountId === account.accountId ? client : undefined;
}

const switching = (title: string, operator: Role, field: 'disabled' | 'paused', value: boolean) =>
  act(title, { operator }, async (actor, { account }: About, admit) => {
    const { accountId, name } = account;
    // They stand still with its other clients.
    const notices = await noticesOf(await actor.db(), account);
    if (notices) await actor.permit({ operator }, notices);
    await admit({ target: accountId, before: { [field]: account[field] }, after: { [field]: value } });
    const clients = await actor.change((db) => setStopped(db, accountId, field, value));
    // One warning is enough: where Temporal does not answer, the sweep wakes all.
    for (const { clientToken } of clients) if (!(await actor.wake(clientToken))) break;
    const now = { disabled: account.disabled, paused: account.paused, [field]: value };
    return { account_id: accountId, name, ...now, clients: clients.length };
  });

/** Ends the tokens of an account, and holds its clients like paused ones. */
export const disableAccount = switching('account disable', 'admin', 'disabled', true);
export const enableAccount = switching('account enable', 'admin', 'disabled', false);

/** Holds every client of an account, also one that is created later. The pause of a single client is apart, and a publisher's resume ends neither. */
export const pauseAccount = switching('account pause', 'support', 'paused', true);
export const resumeAccount = switching('account resume', 'support', 'paused', false);

type AskedLink = Omit<ConsoleGrant, 'by' | 'maySeeSecrets'> & { disabled?: boolean; origin: string };

/** Makes a link that opens the console of an account once. @param input.origin where browsers reach the console */
export const makeConsoleLink = act('console', anyOrSupport, async (actor, given: AskedLink, admit) => {
  const { disabled = false, origin, scopes, ...asked } = given;
  if (disabled) throw refused('The account is disabled');
  const { accountId, access } = asked;
  if (accountId !== (actor.accountId ?? accountId)) throw new ApiError('unknown_account');
  await admit({ target: accountId, after: { access } }, { security: 'look' });
  // The scopes of a token decide for it. Every secret, and the platform's notices, are for the operators who may see secrets.
  const maySee = actor.by === 'publisher' || (await actor.maySeeSecrets());
  const allowed = scopes.filter((scope) => maySee || defaultScopes.includes(scope));
  const grant = { ...asked, scopes: allowed, by: actor.name, maySeeSecrets: maySee };
  const { address, expiresAtMs } = await consoleSessions.createLink(await actor.db(), grant);
  return { account_id: accountId, access, url: origin + address, expires_at: presentTime(expiresAtMs) };
});

export const endConsole = act('console end', support, async (actor, { accountId }: Account, admit) => {
  await admit({ target: accountId });
  await actor.change((db) => endConsoleSessions(db, accountId));
  return { account_id: accountId, ended: true };
});
