import { type Recording, recordCall } from '../../redis/records/audit.js';
import { clientAddress } from '../clientAddress.js';
import type { ApiContext, ApiDeps } from '../step.js';

/** The caller of an audited call; without a client the call is about the account. */
interface Caller {
  ctx: Pick<ApiContext, 'req' | 'state'>;
  token: { accountId: string; fingerprint: string };
  client?: { clientToken: string };
}

/**
 * Records a call in the audit and the log. Await it directly before the call is carried out: refused calls are not recorded,
 * and every call that is carried out is.
 * @param what the call in words, such as `signing secret read`
 * @param about the subject of the call: no secret, of a URL its scheme and host
 * @throws if Redis does not accept the record; then carry nothing out
 */
export async function auditCall(
  { db, log, config }: Pick<ApiDeps, 'db' | 'log' | 'config'>,
  { ctx, token, client }: Caller,
  what: string,
  { about = {}, ...recording }: Recording & { about?: Record<string, unknown> } = {},
): Promise<void> {
  const call = {
    accountId: token.accountId,
    clientToken: client?.clientToken ?? '',
    what,
    address: clientAddress(ctx.req, config.TRUSTED_PROXIES),
    tokenFingerprint: token.fingerprint,
    requestId: ctx.state.requestId,
    about,
  };
  if (!(await recordCall(db, call, recording))) return;
  const { accountId: account_id, address, tokenFingerprint: token_fingerprint, requestId: request_id } = call;
  const caller = { account_id, address, token_fingerprint, request_id };
  log.info(
    { ...caller, ...(client && { client_token: client.clientToken }), what, ...about },
    'audited call',
  );
}
