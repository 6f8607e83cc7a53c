/** The content of a notice: a change of an endpoint's state, or of a signing secret, for an account or the platform. */
import type { NoticeKind, Recipient } from '../redis/records/owedNotices.js';

/** The workflow's input, never with a URL or a secret. Times are ms since the epoch. */
export interface Notice {
  /** The `webhook-id`, the same on every attempt. */
  id: string;
  to: Recipient;
  kind: NoticeKind;
  accountId: string;
  clientToken: string;
  at: number;
  reason: string;
  /** The endpoint's first failure since its last success; without a failure the same as `at`. */
  since: number;
  attemptsFailed: number;
  /** The assets owed when the notice was made. */
  owed: number;
}

/** Returns the body of a notice (contract, section 5b). The body is the same on every attempt. */
export function bodyOf(notice: Notice): string {
  return JSON.stringify({
    event: notice.kind,
    account_id: notice.accountId,
    client_token: notice.clientToken,
    at: presented(notice.at),
    reason: notice.reason,
    since: presented(notice.since),
    attempts_failed: notice.attemptsFailed,
    owed: notice.owed,
  });
}

export const presented = (ms: number): string => new Date(ms).toISOString();
