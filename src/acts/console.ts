/** Links to the console of an account. */
import { ApiError } from '../http/apiError.js';
import { type ConsoleGrant, consoleSessions, endConsoleSessions } from '../redis/records/sessions.js';
import { act } from './act.js';
import { presentTime } from './present.js';

/** Makes a link that opens the console of an account once. @param input.origin where browsers reach the console */
export const makeConsoleLink = act(
  'console',
  { publisher: 'any', operator: 'support' },
  async (
    actor,
    { disabled = false, origin, ...grant }: ConsoleGrant & { disabled?: boolean; origin: string },
    title,
  ) => {
    if (disabled) throw new ApiError('refused', 'The account is disabled');
    const { accountId, access } = grant;
    if (accountId !== (actor.accountId ?? accountId)) throw new ApiError('unknown_account');
    await actor.admit(title, { target: accountId, after: { access } }, { security: 'look' });
    const { address, expiresAtMs } = await consoleSessions.createLink(await actor.db(), grant);
    return { account_id: accountId, access, url: origin + address, expires_at: presentTime(expiresAtMs) };
  },
);

/** Ends every session and unused link of an account. */
export const endConsole = act(
  'console end',
  { operator: 'support' },
  async (actor, { accountId }: { accountId: ConsoleGrant['accountId'] }, title) => {
    await actor.admit(title, { target: accountId });
    await actor.change((db) => endConsoleSessions(db, accountId));
    return { account_id: accountId, ended: true };
  },
);
