import { toldAccount } from '../../redis/connection/keys.js';
import { getNoticesUrl, type NoticesUrl } from '../../redis/records/notices.js';
import type { Operator } from '../operator.js';
import { Refused } from '../refused.js';
import { requireAccount } from '../requireAccount.js';
import { rotateOrRefuse } from '../rotateOrRefuse.js';
import { lastErrorOf } from '../terminal/lastError.js';
import { fromNow, moment } from '../terminal/moment.js';
import { facts } from '../terminal/table.js';

export async function noticesShow(operator: Operator, id: string): Promise<void> {
  const found = await requireNoticesUrl(operator, id);
  operator.answer(present(id, found), () =>
    facts({
      account: id,
      url: found.url,
      set: moment(found.setAtMs),
      'last success': fromNow(found.lastSuccessAtMs),
      'last failure': fromNow(found.lastFailureAtMs),
      'last error': lastErrorOf(found),
    }),
  );
}

export async function noticesRotateSecret(
  operator: Operator,
  id: string,
  { now = false }: { now?: boolean },
): Promise<void> {
  await requireNoticesUrl(operator, id);
  const secret = { owner: toldAccount(id), name: `the notices of ${id}`, now };
  const until = await rotateOrRefuse(operator, secret);
  await operator.record({
    what: 'notices rotate-secret',
    target: id,
    before: null,
    after: { old_ones_end: now ? 'now' : 'in 24 h' },
  });
  operator.answer(
    { account_id: id, previous_valid_until: until ?? null },
    () =>
      `The notices of ${id} have a new signing secret; the account reads it with GET /notices/signing_secret. ` +
      (now ? 'Every earlier one has ended.' : 'The old one also signs for 24 h.'),
  );
}

/** @throws Refused */
async function requireNoticesUrl(operator: Operator, id: string): Promise<NoticesUrl> {
  await requireAccount(operator, id);
  const found = await getNoticesUrl(await operator.db(), id);
  if (found === undefined)
    throw new Refused(`${id} has no URL for notices; only the account can set one, with PUT /notices.`);
  return found;
}

function present(id: string, found: NoticesUrl) {
  return {
    account_id: id,
    url: found.url,
    set_at: moment(found.setAtMs) ?? null,
    last_success_at: moment(found.lastSuccessAtMs) ?? null,
    last_failure_at: moment(found.lastFailureAtMs) ?? null,
    last_error: found.lastError ?? null,
    last_status: found.lastStatus ?? null,
  };
}
