/** The audit: operators' changes, in one stream, and API calls, in streams of their accounts. The service's log has the same entries. */
import { hash } from 'node:crypto';
import { mapInPages } from '../../promises.js';
import { type Db, toPairs } from '../connection/db.js';
import { evaluate } from '../connection/library.js';

export interface Change {
  /** The operator's name. */
  who: string;
  /** The command, such as `registration reset`. */
  what: string;
  /** An account id, a client token or a notification id. */
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
  await evaluate(db, 'recordChange', [db.global.audit], ['MAXLEN', '~', keptChanges, '*', ...entry]);
}

const withoutSecrets = (value: unknown): string =>
  JSON.stringify(value, (name, inner: unknown) => (secretName.test(name) ? undefined : inner)) ?? 'null';

/** Returns the changes from an id on, `(<id>` after it, the oldest first. A time in ms counts as the id of its first entry. */
export async function listChanges(db: Db, from: string): Promise<RecordedChange[]> {
  const entries = await db.redis.xrange(db.global.audit, from, '+', 'COUNT', changesPerPage);
  const changes = entries.map(([id, flat]) => {
    const { before, after, ...said } = Object.fromEntries(toPairs(flat)) as Record<keyof Change, string>;
    return { ...said, id, atMs: writtenAtMs(id), before: JSON.parse(before), after: JSON.parse(after) };
  });
  const last = changes.at(-1);
  if (last === undefined || changes.length < changesPerPage) return changes;
  return [...changes, ...(await listChanges(db, `(${last.id}`))];
}

/** Returns when an entry was written, by Redis' own clock, ms. */
export const writtenAtMs = (id: string): number => Number(id.split('-')[0]);

/** A call of the API that read or changed a secret or a registration, or had something sent. */
interface AuditedCall {
  accountId: string;
  /** Empty for a call about the account. */
  clientToken: string;
  /** In words, such as `signing secret read`. */
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
  /** For so long a repeat makes no second entry: a call with the same `repeatKey`, by default one that is equal in everything. */
  onceForMs?: number;
  repeatKey?: string;
  /**
   * The call bears on security (secrets, URLs, links to the console). Its stream is trimmed by age only, and gets the first entry
   * of each client, kind, address and `repeatKey` in a minute, of reads in an hour: that bounds the stream without displacing any.
   */
  isSecurity?: boolean;
}

/** Within this time, calls that change nothing, with the same token from the same address, are one entry. */
export const readOnceMs = 60_000;
const securityOnceMs = { always: 60_000, once: 3_600_000 };

/** Records a call. @returns false if it repeats an entry */
export async function recordCall(
  db: Db,
  call: AuditedCall,
  { onceForMs = 0, repeatKey, isSecurity = false }: Recording = {},
): Promise<boolean> {
  const { accountId, requestId, ...said } = call;
  const { clientToken, what, address } = said;
  const { accountCalls, accountSecurityCalls, accountCallMark } = db.global;
  const markOf = (text: string) => accountCallMark(accountId, hash('sha256', text, 'base64url').slice(0, 22));
  const keys = [
    accountCalls(accountId),
    accountSecurityCalls(accountId),
    markOf(repeatKey ?? JSON.stringify(said)),
    markOf(JSON.stringify({ clientToken, what, address, as: repeatKey })),
  ];
  const securityMs = !isSecurity ? 0 : onceForMs > 0 ? securityOnceMs.once : securityOnceMs.always;
  const args = [JSON.stringify({ ...said, requestId }), keptCalls, keptMs, onceForMs, securityMs];
  return (await evaluate(db, 'recordCall', keys, args)) === 1;
}

/** Bounds each answer of Redis: a full stream has about 600 kB. */
const accountsPerStep = 10;

/** Lists the calls of every account from an id of the streams on, the oldest first. */
export async function listCalls(db: Db, from = '-'): Promise<RecordedCall[]> {
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
