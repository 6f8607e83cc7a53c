/** What a notice says: a change of an endpoint's health, or of a signing secret, told to an account or the platform. */
import type { NoticeKind, Recipient } from '../redis/records/owedNotices.js';

/** Times are ms since the epoch. The workflow's input: never a URL or a secret. */
export interface Notice {
  /** Its `webhook-id`, the same over all its attempts. */
  id: string;
  to: Recipient;
  kind: NoticeKind;
  accountId: string;
  clientToken: string;
  at: number;
  reason: string;
  /** Since when the endpoint has taken nothing; without a failure the same as `at`. */
  since: number;
  attemptsFailed: number;
  /** The assets owed when the notice was made. */
  owed: number;
}

/** Returns the body of a notice (contract, section 5b). It stays the same over all its attempts. */
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
