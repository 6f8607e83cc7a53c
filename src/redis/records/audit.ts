/** The audit: operators' changes, in one stream, and API calls, in streams of their accounts. The service's log has the same entries. */
import { hash } from 'node:crypto';
import { mapInPages, restsBetweenSteps } from '../../promises.js';
import { type Db, nowOf, toPairs } from '../connection/db.js';
import { answerOf, evaluate, readEachKey } from '../connection/library.js';
import { isNoted, noteMinute } from './auditMinutes.js';

export interface Change {
  who: string;
  /** The command, such as `registration reset`. */
  what: string;
  /** An account id, a client token or a notification id. */
  target: string;
  /** The values before and after; never a secret, of a URL only its scheme and host. */
  before: unknown;
  after: unknown;
  why?: string;
  cancels?: number;
  /** Of an operator who came in over HTTP, as reported by trusted proxies. */
  address?: string;
}

/** Of each operator: a frequent one displaces only entries of its own, and is never refused. */
const keptChanges = 10_000;
const keptChangesMs = 366 * 86_400_000;
/** Nothing displaces an entry about who may come in, secrets or URLs, up to so many of an operator in a day. */
const changesOfSecurity =
  /^(account|token|desk|console|secrets|store|client delete|registration (accept|reset|change|restore))/;
const securityChangesOfDay = 1000;
const entriesPerPage = 500;
const secretName = /(secret|password|access_token|authorization|signing_key)/i;

/** Writes one change. Values named like a secret are always left out. */
export async function recordChange(db: Db, change: Change): Promise<void> {
  const { before, after, ...said } = change;
  const values = { ...said, before: withoutSecrets(before), after: withoutSecrets(after) };
  const entry = Object.entries(values).flatMap(([name, value]) => (value ? [name, String(value)] : []));
  const { audit, auditOf, auditDayOf } = db.global;
  const who = hash('sha256', change.who, 'base64url').slice(0, 22);
  const most = changesOfSecurity.test(change.what) ? securityChangesOfDay : 0;
  const args = [keptChanges, keptChangesMs, most, dayMs, ...entry];
  await evaluate(db, 'recordChange', [audit, auditOf(who), auditDayOf(who)], args);
}

const withoutSecrets = (value: unknown): string =>
  JSON.stringify(value, (name, inner: unknown) => (secretName.test(name) ? undefined : inner)) ?? 'null';

/**
 * Returns the changes from an id on, `(<id>` after it, the oldest first. A time in ms counts as the id of its first entry.
 * `atMs`: by Redis' own clock.
 * @param part only entries in which this text stands
 */
export async function listChanges(db: Db, from: string, to = '+', part = '') {
  const changes: (Change & { id: string; atMs: number })[] = [];
  // Of the values JSON is stored.
  const parts = [part, JSON.stringify(part).slice(1, -1)];
  for await (const page of pagesOf(db, db.global.audit, [from, to], restsBetweenSteps()))
    for (const [id, flat] of page) {
      if (!flat.some((text) => parts.some((one) => text.includes(one)))) continue;
      const said = Object.fromEntries(toPairs(flat)) as Record<keyof Change, string>;
      const [before, after] = [JSON.parse(said.before), JSON.parse(said.after)];
      changes.push({ ...said, id, atMs: writtenAtMs(id), before, after, cancels: Number(said.cancels ?? 0) });
    }
  return changes;
}

type Page = [id: string, fields: string[]][];
/** Of each of many streams at once. */
const entriesOfHead = 20;

/** Reads a stream page by page: a customer's has up to 72 MB. */
async function* pagesOf(db: Db, key: string, [from, to]: [string, string], rest: () => Promise<void>) {
  for (let next = from; next !== ''; ) {
    const page = await db.redis.xrange(key, next, to, 'COUNT', entriesPerPage);
    yield page;
    await rest();
    next = page.length < entriesPerPage ? '' : `(${page.at(-1)?.[0]}`;
  }
}

/** Returns when an entry was written, by Redis' own clock, ms. */
export const writtenAtMs = (id: string): number => Number(id.split('-')[0]);

/** A call of the API that read or changed a secret or a registration, or had something sent. */
interface AuditedCall {
  accountId: string;
  /** Empty for a call about the account. */
  clientToken: string;
  what: string;
  /** The caller's address, as reported by trusted proxies. */
  address: string;
  tokenFingerprint: string;
  /** Of a session of the console: who made its link, an operator or a token. */
  by?: string;
  requestId: string;
  /** The subject of the call; never a secret, of a URL only its scheme and host. */
  about: Readonly<Record<string, unknown>>;
}

/** `atMs`: by Redis' own clock. */
export type RecordedCall = AuditedCall & { atMs: number };

/** A frequent caller displaces only entries of its own account. */
const keptCalls = 2000;
/** Time after the account's last entry. */
const keptMs = 90 * 86_400_000;

/**
 * A call that bears on security: a change of a secret, a URL or headers; a look at secrets; one with the account's own credentials.
 * Nothing displaces its entry for 90 days, so the entries of a day are bounded (docs/capacity.md).
 */
export type SecurityCall = keyof typeof dailyBounds;

const dayMs = 86_400_000;
/**
 * Of a day: every entry up to `all`; beyond it, up to `most`, those with a token or network that had none. Further looks and changes
 * are refused. Further calls with credentials are not: their holder must be able to end tokens. Their entries are ordinary ones.
 */
const dailyBounds = {
  change: { all: 50, most: 50, isRefused: true },
  look: { all: 1000, most: 2000, isRefused: true },
  credentials: { all: 1000, most: 2000, isRefused: false },
};

export interface Recording {
  security?: SecurityCall;
  /** Only with `security`. For so long a repeat makes no second entry: a call with the same `repeatKey`, by default an equal one. */
  onceForMs?: number;
  repeatKey?: string;
}

/** Equal: the same call with the same token from the same network. */
export const lookOnceMs = 3_600_000;

export type DailyBound = { calls: number; waitMs: number };

/** Records a call. @param call.network the range of the caller's address @returns whether it is a new entry, or the bound that refuses it */
export async function recordCall(
  db: Db,
  { network, ...call }: AuditedCall & { network: string },
  { onceForMs = 0, repeatKey, security }: Recording = {},
): Promise<boolean | DailyBound> {
  const { accountId, requestId, ...said } = call;
  const { clientToken, what, tokenFingerprint } = said;
  const { accountCalls, accountSecurityCalls, accountCallMark } = db.global;
  const markOf = (...of: unknown[]) =>
    accountCallMark(accountId, hash('sha256', JSON.stringify(of), 'base64url').slice(0, 22));
  const { all, most, isRefused } = security ? dailyBounds[security] : { all: 0, most: 0, isRefused: false };
  const keys = [
    accountCalls(accountId),
    accountSecurityCalls(accountId),
    db.global.accountDay(accountId, security === 'change' ? `change:${clientToken}` : `${security}`),
    markOf('equal', repeatKey ?? { ...said, address: network }),
    markOf('token', what, tokenFingerprint),
    markOf('network', what, network),
  ];
  const entry = JSON.stringify({ ...said, requestId });
  const args = [entry, keptCalls, keptMs, onceForMs, all, most, isRefused ? '1' : '0', dayMs];
  const notedMs = nowOf(db);
  await noteMinute(db, 'account', accountId, notedMs);
  const [id, waitMs] = await evaluate<[string, number]>(db, 'recordCall', keys, args);
  if (id !== '' && !isNoted(writtenAtMs(id), notedMs))
    await noteMinute(db, 'account', accountId, writtenAtMs(id));
  return waitMs > 0 ? { calls: most, waitMs } : id !== '';
}

/**
 * Lists the calls of accounts from an id of the streams to another, of each stream the oldest first: `inTimeOrder` sorts them.
 * @param part only entries in which this text stands as a value
 */
export async function listCalls(
  db: Db,
  accounts: readonly string[],
  [from, to]: [string, string] = ['-', '+'],
  part?: string,
): Promise<RecordedCall[]> {
  const { accountCalls, accountSecurityCalls } = db.global;
  const text = part === undefined ? '' : JSON.stringify(part);
  const calls: RecordedCall[] = [];
  const rest = restsBetweenSteps();
  const streams = accounts.flatMap((id) => [accountCalls(id), accountSecurityCalls(id)]);
  const heads = await readEachKey<Page>(db, streams, 'XRANGE', [from, to, 'COUNT', entriesOfHead], rest);
  await mapInPages([...heads.entries()], 50, async ([i, answer]) => {
    const head = answerOf(answer);
    const accountId = accounts[Math.floor(i / 2)] ?? '';
    const add = (page: Page) => {
      for (const [id, [, entry = '{}']] of page)
        if (entry.includes(text)) calls.push({ ...JSON.parse(entry), accountId, atMs: writtenAtMs(id) });
    };
    add(head);
    if (head.length === entriesOfHead)
      for await (const page of pagesOf(db, streams[i] ?? '', [`(${head.at(-1)?.[0]}`, to], rest)) add(page);
  });
  return calls;
}

/** Sorts entries by time, a minute at a time, and returns them in pages: everybody's calls wait meanwhile. */
export async function* inTimeOrder<Entry extends { atMs: number }>(entries: readonly Entry[]) {
  const minutes = new Map<number, Entry[]>();
  for (const entry of entries) {
    const minute = Math.floor(entry.atMs / 60_000);
    const before = minutes.get(minute);
    if (before) before.push(entry);
    else minutes.set(minute, [entry]);
  }
  const rest = restsBetweenSteps();
  for (const [, minute] of [...minutes].sort(([a], [b]) => a - b)) {
    minute.sort((a, b) => a.atMs - b.atMs);
    for (let at = 0; at < minute.length; at += entriesPerPage) {
      yield minute.slice(at, at + entriesPerPage);
      await rest();
    }
  }
}
