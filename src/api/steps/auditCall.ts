import { accountIdOf } from '../../redis/records/accounts.js';
import { type AuditedCall, type Recording, readOnce, recordCall } from '../../redis/records/audit.js';
import { clientAddress, networkOf } from '../clientAddress.js';
import type { ApiDeps, Step } from '../step.js';
import { RememberedUntil } from './limits.js';
import type { ClientState, TokenState } from './publisher.js';

/** The audit entry of a call, without its caller. */
export interface Audited<State> {
  /** In words, such as `signing secret read`. */
  what: string;
  /** True for a call that changes and sends nothing. */
  isRead?: boolean;
  /** True for a call that bears on security: no flood of others displaces its entry. */
  isSecurity?: boolean;
  /** The subject: no secret, of a URL its scheme and host. undefined: there is nothing to record. */
  about?: (state: State) => Record<string, unknown> | undefined;
}

/**
 * Records the caller of this call in the audit and the log. It runs directly before the call is carried out: refused calls
 * are not recorded, and every call that is carried out is. The entry of a call about no single client has no client token.
 * @throws if Redis does not accept it; then nothing is carried out
 */
export function auditCall<State extends TokenState & Partial<ClientState>>(
  deps: ApiDeps,
  { what, isRead = false, isSecurity = false, about = () => ({}) }: Audited<State>,
): Step<State> {
  return async (ctx, next) => {
    const { token, client, requestId } = ctx.state;
    const subject = about(ctx.state);
    if (subject !== undefined) {
      const call = {
        accountId: token.accountId,
        clientToken: client?.clientToken ?? '',
        what,
        address: clientAddress(ctx.req, deps.config.TRUSTED_PROXIES),
        tokenFingerprint: token.fingerprint,
        requestId,
        about: subject,
      };
      await audit(deps, call, { isSecurity, ...(isRead && { once: readOnce }) });
    }
    await next();
  };
}

/** Records a call in the audit and the log. @throws if Redis does not accept it */
export async function audit(
  { db, log }: Pick<ApiDeps, 'db' | 'log'>,
  call: AuditedCall,
  recording?: Recording,
): Promise<void> {
  if (await recordCall(db, call, recording)) log.info(forLog(call), 'audited call');
}

const forLog = (call: AuditedCall) => ({
  account_id: call.accountId,
  ...(call.clientToken !== '' && { client_token: call.clientToken }),
  what: call.what,
  ...call.about,
  address: call.address,
  token_fingerprint: call.tokenFingerprint,
  request_id: call.requestId,
});

/** About 1 MB in each process. */
const rememberedAtMost = 10_000;

/**
 * Records the first token of a day (UTC) that an account asks for from a network: a thief's first one is among them.
 * A process remembers what is recorded, so that the other token calls cost Redis nothing more.
 */
export function firstTokenAudit(deps: ApiDeps) {
  const recorded = new RememberedUntil(rememberedAtMost);
  return async (clientId: string, address: string, requestId: string): Promise<void> => {
    const now = Date.now();
    const dayEndsMs = now - (now % dayMs) + dayMs;
    const as = `first token ${networkOf(address)} ${dayEndsMs}`;
    const key = `${clientId} ${as}`;
    if (recorded.leftMs(key, now) > 0) return;
    const call = {
      ...{ accountId: accountIdOf(clientId), clientToken: '', what: 'first token of the day', address },
      ...{ tokenFingerprint: '', requestId, about: { client_id: clientId } },
    };
    await audit(deps, call, { once: { forMs: dayMs, as }, isSecurity: true });
    recorded.remember(key, dayEndsMs);
  };
}

const dayMs = 86_400_000;
