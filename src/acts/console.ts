/** Links to the console of an account. */
import { ApiError } from '../http/apiError.js';
import { defaultScopes } from '../redis/records/accounts.js';
import { type ConsoleGrant, consoleSessions, endConsoleSessions } from '../redis/records/sessions.js';
import { act } from './act.js';
import { presentTime } from './present.js';

type Asked = Omit<ConsoleGrant, 'by' | 'maySeeSecrets'>;

/** Makes a link that opens the console of an account once. @param input.origin where browsers reach the console */
export const makeConsoleLink = act(
  'console',
  { publisher: 'any', operator: 'support' },
  async (
    actor,
    { disabled = false, origin, scopes, ...asked }: Asked & { disabled?: boolean; origin: string },
    admit,
  ) => {
    if (disabled) throw new ApiError('refused', 'The account is disabled');
    const { accountId, access } = asked;
    if (accountId !== (actor.accountId ?? accountId)) throw new ApiError('unknown_account');
    await admit({ target: accountId, after: { access } }, { security: 'look' });
    // The scopes of a token decide for it. Every secret, and the platform's notices, are for the operators who may see secrets.
    const maySee = actor.by === 'publisher' || (await actor.maySeeSecrets());
    const allowed = scopes.filter((scope) => maySee || defaultScopes.includes(scope));
    const grant = { ...asked, scopes: allowed, by: actor.name, maySeeSecrets: maySee };
    const { address, expiresAtMs } = await consoleSessions.createLink(await actor.db(), grant);
    return { account_id: accountId, access, url: origin + address, expires_at: presentTime(expiresAtMs) };
  },
);

export const endConsole = act(
  'console end',
  { operator: 'support' },
  async (actor, { accountId }: { accountId: ConsoleGrant['accountId'] }, admit) => {
    await admit({ target: accountId });
    await actor.change((db) => endConsoleSessions(db, accountId));
    return { account_id: accountId, ended: true };
  },
);
