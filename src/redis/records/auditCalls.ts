/**
 * The audit of API calls: who read or changed a secret or a registration, or had something sent. Each account has its
 * own streams, so that a frequent caller displaces only its own entries. The service's log has the same entries.
 *
 * What bears on security (secrets, URLs, links to the console) has a stream that is trimmed by age only. It gets the first
 * entry of each client, kind and address in a minute, of reads in an hour: that bounds it without displacing any.
 */
import { hash } from 'node:crypto';
import { type Db, nowOf } from '../connection/db.js';
import { evaluate } from '../connection/library.js';
import { runPipeline } from '../connection/pipeline.js';

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

const keptOfAnAccount = 2000;
/** Time after the account's last entry. */
const keptMs = 90 * 86_400_000;
/** Which repeats of a call make no second entry. */
export interface Once {
  forMs: number;
  /** Equal for calls that repeat each other; without it those that are equal in everything. */
  as?: string;
}

/** Calls that change nothing: repeats with the same token from the same address within a minute are one entry. */
export const readOnce: Once = { forMs: 60_000 };

export interface Recording {
  once?: Once;
  /** No flood of others displaces the entry. */
  isSecurity?: boolean;
}

/** In the stream for security: one entry of a client, kind and address in this time. */
const securityOnceMs = { always: 60_000, once: 3_600_000 };

/** Records a call. @returns false if it repeats an entry, as `once` says */
export async function recordCall(
  db: Db,
  call: AuditedCall,
  { once = { forMs: 0 }, isSecurity = false }: Recording = {},
): Promise<boolean> {
  const { accountId, requestId, ...said } = call;
  const mark = markOf(db, accountId, once.as ?? JSON.stringify(said));
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
  return (await evaluate(db, 'recordCall', keys, [entry, keptOfAnAccount, keptMs, once.forMs])) === 1;
}

/** If the entry itself fails afterwards, the call is refused, and its repeat is recorded in the other stream. */
async function isFirst(db: Db, call: AuditedCall, withinMs: number): Promise<boolean> {
  const { accountId, clientToken, what, address } = call;
  const mark = markOf(db, accountId, JSON.stringify({ clientToken, what, address }));
  return (await db.redis.set(mark, '1', 'PX', withinMs, 'NX')) === 'OK';
}

const markOf = (db: Db, accountId: string, said: string): string =>
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

/** Lists the calls of every account since a time (ms), the oldest first. */
export async function listCalls(db: Db, { since = 0 }: { since?: number } = {}): Promise<RecordedCall[]> {
  const from = String(Math.max(0, Math.floor(since)));
  const accountIds = await db.redis.smembers(db.global.accounts);
  const found: RecordedCall[] = [];
  for (let start = 0; start < accountIds.length; start += accountsPerStep) {
    const page = accountIds.slice(start, start + accountsPerStep);
    const commands = db.redis.pipeline();
    for (const accountId of page) {
      commands.xrange(db.global.accountCalls(accountId), from, '+');
      commands.xrange(db.global.accountSecurityCalls(accountId), from, '+');
    }
    const streams = (await runPipeline(commands)) as [string, string[]][][];
    streams.forEach((entries, i) => {
      const accountId = page[Math.floor(i / 2)] ?? '';
      for (const [id, [, entry = '{}']] of entries) found.push(recordedCall(accountId, id, entry));
    });
  }
  return found.sort((a, b) => a.atMs - b.atMs);
}

/** Bounds each answer of Redis: a full stream has about 600 kB. */
const accountsPerStep = 10;

function recordedCall(accountId: string, id: string, entry: string): RecordedCall {
  const said = JSON.parse(entry) as Omit<AuditedCall, 'accountId'>;
  return { ...said, accountId, atMs: Number(id.split('-')[0]) };
}
