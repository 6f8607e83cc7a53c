import type { Counting } from '../../acts/act.js';
import type { Subject } from '../../acts/subjects.js';
import { tooMany } from '../../http/apiError.js';
import { clientAddress, networkOf } from '../../http/clientAddress.js';
import type { ApiContext } from '../../http/context.js';
import { countCall } from '../../http/rates.js';
import { type Recording, recordCall } from '../../redis/records/audit.js';
import type { ApiDeps } from '../deps.js';

/** The caller of an audited call; without a client the call is about the account. */
interface Caller {
  ctx: Pick<ApiContext, 'req' | 'state'>;
  token: { accountId: string; fingerprint: string; by?: string };
  client?: Subject;
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
  // The platform's: an audit of the client reads its own account's, and those of the accounts that this names.
  if (client !== undefined && client.accountId !== token.accountId)
    await db.redis.sadd(db.client(client.clientToken).callers, token.accountId);
  const recorded = await db.durably((own) => recordCall(own, call, recording)).safe;
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
const rates = {
  sends: 'Too many calls for this client that send something',
  settings: 'Too many calls for this client that set its request headers or its quiet period',
};

/**
 * Counts a client's call towards its rate, over all processes, and records it. The sends of one call count all or none. The guide's
 * test (1), check (5) and verified registration (2) may follow one another at once.
 * @throws ApiError 429, and as `auditCall`
 */
export async function admitCall(
  deps: ApiDeps,
  caller: Caller & { client: Subject },
  what: string,
  { sends, sets, ...recording }: Counting & { about?: Record<string, unknown> },
): Promise<void> {
  if (sets || sends) {
    const name = sets ? 'settings' : 'sends';
    const quota = { name, calls: 8, windowSeconds: 40 };
    const key = deps.db.client(caller.client.clientToken).callRate(name);
    const { waitMs } = await countCall(deps.db, key, { ...quota, calls: quota.calls / (sends ?? 1) });
    if (waitMs > 0) throw tooMany(rates[name], quota, waitMs);
  }
  await auditCall(deps, caller, what, recording);
}
