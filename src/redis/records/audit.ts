/** The audit: operators' changes, in one stream, and API calls, in streams of their accounts. The service's log has the same entries. */
import { hash } from 'node:crypto';
import { mapInPages } from '../../promises.js';
import { type Db, nowOf } from '../connection/db.js';
import { evaluate } from '../connection/library.js';
import { runPipeline } from '../connection/pipeline.js';
import { fieldsOf } from '../owed/standing.js';

export interface Change {
  /** The operator's name. */
  who: string;
  /** The command, such as `registration reset`. */
  what: string;
  /** The target: an account id, a client token or a notification id. */
  target: string;
  /** The values before and after; never a secret, of a URL only its scheme and host. */
  before: unknown;
  after: unknown;
}

interface RecordedChange extends Change {
  id: string;
  /** Redis' own clock, ms. */
  atMs: number;
}

const keptChanges = 100_000;
const changesPerPage = 1000;
const secretName = /(secret|password|access_token|authorization|signing_key)/i;

/** Writes one change. Values named like a secret are always left out. */
export async function recordChange(db: Db, { who, what, target, before, after }: Change): Promise<void> {
  const values = ['before', withoutSecrets(before), 'after', withoutSecrets(after)];
  const entry = ['who', who, 'what', what, 'target', target, ...values];
  await db.redis.xadd(db.global.audit, 'MAXLEN', '~', keptChanges, '*', ...entry);
}

const withoutSecrets = (value: unknown): string =>
  JSON.stringify(value, (name, inner: unknown) => (secretName.test(name) ? undefined : inner)) ?? 'null';

/** Returns the changes since a time (ms), the oldest first. */
export async function listChanges(db: Db, { since = 0 }: { since?: number } = {}): Promise<RecordedChange[]> {
  const changes: RecordedChange[] = [];
  let from = String(Math.max(0, Math.floor(since)));
  for (;;) {
    const found = await pageOfChanges(db, from);
    changes.push(...found);
    const last = found.at(-1);
    if (last === undefined || found.length < changesPerPage) return changes;
    from = `(${last.id}`;
  }
}

/** Returns the first changes after an entry, the oldest first. */
export function changesSince(db: Db, id: string): Promise<RecordedChange[]> {
  return pageOfChanges(db, `(${id}`);
}

async function pageOfChanges(db: Db, from: string): Promise<RecordedChange[]> {
  const entries = await db.redis.xrange(db.global.audit, from, '+', 'COUNT', changesPerPage);
  return entries.map(([id, flat]) => {
    const { before, after, ...said } = fieldsOf(flat) as Record<keyof Change, string>;
    return { ...said, id, atMs: writtenAtMs(id), before: JSON.parse(before), after: JSON.parse(after) };
  });
}

/** When an entry was written, by Redis' own clock, ms. */
export function writtenAtMs(id: string): number {
  return Number(id.split('-')[0]);
}

/** Returns the last change that is in the service's log. */
export async function toldUntil(db: Db): Promise<string> {
  return (await db.redis.get(db.global.auditTold)) ?? '0-0';
}

export async function tellUntil(db: Db, id: string): Promise<void> {
  await db.redis.set(db.global.auditTold, id);
}

/** A call of the API that read or changed a secret or a registration, or had something sent. */
export interface AuditedCall {
  accountId: string;
  /** Empty for a call about the account. */
  clientToken: string;
  /** The call in words, such as `signing secret read`. */
  what: string;
  /** The caller's address, as reported by trusted proxies. */
  address: string;
  /** The beginning of the access token's SHA-256. */
  tokenFingerprint: string;
  requestId: string;
  /** The subject of the call; never a secret, of a URL only its scheme and host. */
  about: Readonly<Record<string, unknown>>;
}

export interface RecordedCall extends AuditedCall {
  /** Redis' own clock, ms. */
  atMs: number;
}

/** A frequent caller displaces only entries of its own account. */
const keptCalls = 2000;
/** Time after the account's last entry. */
const keptMs = 90 * 86_400_000;

export interface Recording {
  /** Which repeats of a call make no second entry: those with the same `as`, by default those that are equal in everything. */
  once?: { forMs: number; as?: string };
  /**
   * The call bears on security (secrets, URLs, links to the console). Its stream is trimmed by age only, and gets the first entry
   * of each client, kind and address in a minute, of reads in an hour: that bounds the stream without displacing any.
   */
  isSecurity?: boolean;
}

/** Calls that change nothing: repeats with the same token from the same address within a minute are one entry. */
export const readOnce = { forMs: 60_000 };
const securityOnceMs = { always: 60_000, once: 3_600_000 };

/** Records a call. @returns false if it repeats an entry, as `once` says */
export async function recordCall(
  db: Db,
  call: AuditedCall,
  { once = { forMs: 0 }, isSecurity = false }: Recording = {},
): Promise<boolean> {
  const { accountId, requestId, ...said } = call;
  const mark = callMark(db, accountId, once.as ?? JSON.stringify(said));
  if (isSecurity) {
    if (once.forMs > 0 && (await db.redis.exists(mark)) === 1) return false;
    if (await isFirst(db, call, once.forMs > 0 ? securityOnceMs.once : securityOnceMs.always)) {
      await recordForSecurity(db, call);
      if (once.forMs > 0) await db.redis.set(mark, '1', 'PX', once.forMs);
      return true;
    }
  }
  const keys = [db.global.accountCalls(accountId), mark];
  const entry = JSON.stringify({ ...said, requestId });
  return (await evaluate(db, 'recordCall', keys, [entry, keptCalls, keptMs, once.forMs])) === 1;
}

/** If the entry itself fails afterwards, the call is refused, and its repeat is recorded in the other stream. */
async function isFirst(db: Db, call: AuditedCall, withinMs: number): Promise<boolean> {
  const { accountId, clientToken, what, address } = call;
  const mark = callMark(db, accountId, JSON.stringify({ clientToken, what, address }));
  return (await db.redis.set(mark, '1', 'PX', withinMs, 'NX')) === 'OK';
}

const callMark = (db: Db, accountId: string, said: string): string =>
  db.global.accountCallMark(accountId, hash('sha256', said, 'base64url').slice(0, 22));

async function recordForSecurity(db: Db, { accountId, ...entry }: AuditedCall): Promise<void> {
  const key = db.global.accountSecurityCalls(accountId);
  const oldest = nowOf(db) - keptMs;
  await runPipeline(
    db.redis
      .pipeline()
      .xadd(key, 'MINID', '~', oldest, '*', 'call', JSON.stringify(entry))
      .pexpire(key, keptMs),
  );
}

/** Bounds each answer of Redis: a full stream has about 600 kB. */
const accountsPerStep = 10;

/** Lists the calls of every account since a time (ms), the oldest first. */
export async function listCalls(db: Db, { since = 0 }: { since?: number } = {}): Promise<RecordedCall[]> {
  const from = String(Math.max(0, Math.floor(since)));
  const accountIds = await db.redis.smembers(db.global.accounts);
  const perAccount = await mapInPages(accountIds, accountsPerStep, async (accountId) => {
    const keys = [db.global.accountCalls(accountId), db.global.accountSecurityCalls(accountId)];
    const streams = await Promise.all(keys.map((key) => db.redis.xrange(key, from, '+')));
    return streams.flat().map(([id, [, entry = '{}']]) => ({
      ...(JSON.parse(entry) as Omit<AuditedCall, 'accountId'>),
      accountId,
      atMs: writtenAtMs(id),
    }));
  });
  return perAccount.flat().sort((a, b) => a.atMs - b.atMs);
}
