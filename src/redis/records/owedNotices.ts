/**
 * Notices that no workflow has yet, in the hash of a client's endpoint. The script that changes the state or the secret
 * writes them, so a process that ends afterwards loses none. Of each field only the newest counts.
 */
import type { Db } from '../connection/db.js';
import { runScript } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import type { EndpointHealth } from '../owed/settle.js';

export const noticeKinds = [
  'endpoint.failing',
  'endpoint.suspended',
  'endpoint.recovered',
  'secret.rotated',
] as const;
export type NoticeKind = (typeof noticeKinds)[number];

/** Who is told: the client's account, the platform. */
export type Recipient = 'account' | 'platform';

export type NoticeField = 'state_notice' | 'secret_notice';

/** Times are ms since the epoch. */
export interface OwedNotice {
  field: NoticeField;
  /** As it is stored. */
  stored: string;
  kind: NoticeKind;
  at: number;
  reason: string;
  /** Since when the endpoint has taken nothing; without a failure the same as `at`. */
  since: number;
  attemptsFailed: number;
  /** Who has been told already. */
  told: Recipient[];
  /** Not to be told before: another of its kind was told in this hour. */
  notBefore: number;
}

interface Stored {
  kind: NoticeKind;
  at: number;
  reason: string;
  since: number;
  attempts_failed: number;
  told?: Recipient[];
  not_before?: number;
}

/** Reads what a client's notices are, and the state that its endpoint is in now. @throws where one is broken */
export async function owedNotices(
  db: Db,
  clientToken: string,
): Promise<{ health: EndpointHealth; notices: OwedNotice[] }> {
  const { endpoint } = db.client(clientToken);
  const [health, state, secret] = await db.redis.hmget(endpoint, 'state', 'state_notice', 'secret_notice');
  return {
    health: (health ?? 'active') as EndpointHealth,
    notices: [...noticeOf('state_notice', state), ...noticeOf('secret_notice', secret)],
  };
}

function noticeOf(field: NoticeField, stored: string | null | undefined): OwedNotice[] {
  if (!stored) return [];
  const { attempts_failed: attemptsFailed, told = [], not_before: notBefore = 0, ...rest } = parse(stored);
  return [{ ...rest, field, stored, attemptsFailed, told, notBefore }];
}

const parse = (stored: string): Stored => JSON.parse(stored) as Stored;

/** Whether one of a client's fields holds a notice that may be told now. */
export function holdsNotice(fields: readonly (string | null | undefined)[], nowMs: number): boolean {
  return fields.some((stored) => stored && (parse(stored).not_before ?? 0) <= nowMs);
}

/** Takes a notice away, unless a newer one is there by now. */
export async function dropOwedNotice(db: Db, clientToken: string, notice: OwedNotice): Promise<void> {
  await runScript(db, replaceScript, clientToken, [notice.field, notice.stored, '']);
}

/** Keeps a notice for later, with who has been told. Changes nothing where a newer one is there by now. */
export async function keepOwedNotice(
  db: Db,
  clientToken: string,
  notice: OwedNotice,
  later: { told: Recipient[]; notBefore: number },
): Promise<void> {
  const left: Stored = { ...parse(notice.stored), told: later.told, not_before: later.notBefore };
  await runScript(db, replaceScript, clientToken, [notice.field, notice.stored, JSON.stringify(left)]);
}

const replaceScript = script('replaceOwedNotice');
