import { type ClientToken, noticesClient } from '../../ids.js';
import { noticesClientOf } from '../../redis/records/notices.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { type AddCommand, type Operator, Refused, requireAccount } from '../operator.js';
import { registrationShow } from './registration.js';
import { endOfOld, rotate } from './secrets.js';

export function addNoticesCommands(add: AddCommand): void {
  add('show <account>', "show the URL for an account's (or platform's) notices, and its state", show);
  add(
    'rotate-secret <account>',
    'replace the signing secret of notices; the old one also signs for 24 h',
    rotateSecret,
  ).option('--now', 'the old one and every earlier one end immediately');
}

async function show(operator: Operator, of: string): Promise<void> {
  await registrationShow(operator, await requireNoticesUrl(operator, of));
}

async function rotateSecret(
  operator: Operator,
  of: string,
  { now = false }: { now?: boolean },
): Promise<void> {
  const until = await rotate(operator, await requireNoticesUrl(operator, of), now);
  await operator.record('notices rotate-secret', of, null, { old_ones_end: now ? 'now' : 'in 24 h' });
  const readBy = 'the account reads it with GET /notices/signing_secret';
  operator.answer(
    { account_id: of, previous_valid_until: until },
    () => `The notices of ${of} have a new signing secret; ${readBy}. ${endOfOld(now)}`,
  );
}

/** @param of an account's id, or `platform` @returns the client that gets the notices @throws Refused */
async function requireNoticesUrl(operator: Operator, of: string): Promise<ClientToken> {
  const clientToken =
    of === 'platform' ? noticesClient(of) : noticesClientOf(await requireAccount(operator, of));
  if (await getRegistration(await operator.db(), clientToken)) return clientToken;
  throw new Refused(`${of} has no URL for notices; an account sets its own with PUT /notices.`);
}
