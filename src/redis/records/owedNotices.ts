/**
 * Notices without a workflow yet, in the hash of a client's endpoint. The script that changes the state or the secret
 * writes them, so a process that ends afterwards loses none. Each field holds only the newest notice.
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

/** The recipient of a notice: the client's account, or the platform. */
export type Recipient = 'account' | 'platform';

export type NoticeField = 'state_notice' | 'secret_notice';

/** Times are ms since the epoch. */
export interface OwedNotice {
  field: NoticeField;
  /** The stored JSON. */
  stored: string;
  kind: NoticeKind;
  at: number;
  reason: string;
  /** The endpoint's first failure since its last success; without a failure the same as `at`. */
  since: number;
  attemptsFailed: number;
  /** The recipients whose workflow has started. */
  told: Recipient[];
  /** No workflow starts before: another notice of this kind had this hour. */
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

/** Reads a client's notices, and the current state of its endpoint. @throws if a notice is broken */
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

/** Returns whether one of a client's fields holds a notice that may be handed over now. */
export function holdsNotice(fields: readonly (string | null | undefined)[], nowMs: number): boolean {
  return fields.some((stored) => stored && (parse(stored).not_before ?? 0) <= nowMs);
}

/** Removes a notice, unless a newer one has replaced it. */
export async function dropOwedNotice(db: Db, clientToken: string, notice: OwedNotice): Promise<void> {
  await runScript(db, replaceScript, clientToken, [notice.field, notice.stored, '']);
}

/** Keeps a notice for later, with the recipients so far. Changes nothing if a newer one has replaced it. */
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
