import { type ClientToken, noticesClient } from '../../ids.js';
import { noticesClientOf } from '../../redis/records/notices.js';
import { getRegistration } from '../../redis/records/registrations.js';
import type { Operator } from '../operator.js';
import { Refused } from '../refused.js';
import { requireAccount } from '../requireAccount.js';
import { rotateOrRefuse } from '../rotateOrRefuse.js';
import { registrationShow } from './registration.js';

export async function noticesShow(operator: Operator, of: string): Promise<void> {
  await registrationShow(operator, await requireNoticesUrl(operator, of));
}

export async function noticesRotateSecret(
  operator: Operator,
  of: string,
  { now = false }: { now?: boolean },
): Promise<void> {
  const until = await rotateOrRefuse(operator, await requireNoticesUrl(operator, of), now);
  await operator.record({
    what: 'notices rotate-secret',
    target: of,
    before: null,
    after: { old_ones_end: now ? 'now' : 'in 24 h' },
  });
  operator.answer(
    { account_id: of, previous_valid_until: until ?? null },
    () =>
      `The notices of ${of} have a new signing secret; the account reads it with GET /notices/signing_secret. ` +
      (now ? 'Every earlier one has ended.' : 'The old one also signs for 24 h.'),
  );
}

/** @param of an account's id, or `platform` @returns the client that gets the notices @throws Refused */
async function requireNoticesUrl(operator: Operator, of: string): Promise<ClientToken> {
  const clientToken =
    of === 'platform' ? noticesClient(of) : noticesClientOf(await requireAccount(operator, of));
  if (await getRegistration(await operator.db(), clientToken)) return clientToken;
  throw new Refused(`${of} has no URL for notices; an account sets its own with PUT /notices.`);
}
