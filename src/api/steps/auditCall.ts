import type { Subject } from '../../acts/subjects.js';
import { tooMany } from '../../http/apiError.js';
import { clientAddress, networkOf } from '../../http/clientAddress.js';
import type { ApiContext } from '../../http/context.js';
import { type Recording, recordCall } from '../../redis/records/audit.js';
import { countCall } from '../../redis/records/rates.js';
import type { ApiDeps } from '../deps.js';

/** The caller of an audited call; without a client the call is about the account. */
interface Caller {
  ctx: Pick<ApiContext, 'req' | 'state'>;
  token: { accountId: string; fingerprint: string; by?: string };
  client?: { clientToken: string };
}

/**
 * Records a call in the audit and the log. Await it directly before the call is carried out: refused calls are not recorded,
 * and every call that is carried out is.
 * @param what the call in words, such as `signing secret read`
 * @param about the subject of the call: no secret, of a URL its scheme and host
 * @throws if Redis does not accept the record, and ApiError 429 if the entries of a day are used up; then carry nothing out
 */
export async function auditCall(
  { db, log, config }: Pick<ApiDeps, 'db' | 'log' | 'config'>,
  { ctx, token, client }: Caller,
  what: string,
  { about = {}, ...recording }: Recording & { about?: Record<string, unknown> } = {},
): Promise<void> {
  const address = clientAddress(ctx.req, config.TRUSTED_PROXIES);
  const call = {
    accountId: token.accountId,
    clientToken: client?.clientToken ?? '',
    what,
    address,
    network: networkOf(address),
    tokenFingerprint: token.fingerprint,
    ...(token.by !== undefined && { by: token.by }),
    requestId: ctx.state.requestId,
    about,
  };
  const recorded = await recordCall(db, call, recording);
  if (recorded === false) return;
  if (recorded !== true) {
    const { calls, waitMs } = recorded;
    const quota = { name: `${recording.security}s`, calls, windowSeconds: 86_400 };
    throw tooMany(refusals[recording.security as keyof typeof refusals], quota, waitMs);
  }
  const { accountId: account_id, tokenFingerprint: token_fingerprint, requestId: request_id } = call;
  const caller = { account_id, address, token_fingerprint, request_id, client_token: client?.clientToken };
  log.info({ ...caller, by: token.by, what, ...about }, 'audited call');
}

const refusals = {
  change: 'Too many changes of this client in a day',
  look: 'Too many tokens and networks of this account looked at secrets in a day',
};

/** Contract, section 5. */
const sends = { name: 'sends', calls: 6, windowSeconds: 30 };

/**
 * Counts a client's call that sends something, over all such calls and all processes, and records it.
 * @param recording.together how many sends to count, all or none: 1, the 2 of a registration that is verified, or the 5 of a check,
 * which may follow a test at once.
 * @throws ApiError 429, and as `auditCall`
 */
export async function admitSend(
  deps: ApiDeps,
  caller: Caller & { client: Subject },
  what: string,
  { together = 1, ...recording }: Parameters<typeof auditCall>[3] & { together?: 1 | 2 | 5 } = {},
): Promise<void> {
  const { sendRate } = deps.db.client(caller.client.clientToken);
  const { waitMs } = await countCall(deps.db, sendRate, { ...sends, calls: sends.calls / together });
  if (waitMs > 0)
    throw tooMany('Too many calls for this client that send something or set what is sent', sends, waitMs);
  await auditCall(deps, caller, what, recording);
}
