/**
 * The audit of API calls: who read or changed a secret or a registration, or had something sent. Each account has its
 * own stream, so that a frequent caller displaces only its own entries. The service's log has the same entries.
 */
import { hash } from 'node:crypto';
import type { Db } from '../connection/db.js';
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
  /** The subject of the call; never a secret, never the query of a URL. */
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

/** Records a call. @returns false if it repeats an entry, as `once` says */
export async function recordCall(db: Db, call: AuditedCall, once: Once = { forMs: 0 }): Promise<boolean> {
  const { accountId, requestId, ...said } = call;
  const mark = hash('sha256', once.as ?? JSON.stringify(said), 'base64url').slice(0, 22);
  const keys = [db.global.accountCalls(accountId), db.global.accountCallMark(accountId, mark)];
  const entry = JSON.stringify({ ...said, requestId });
  return (await evaluate(db, 'recordCall', keys, [entry, keptOfAnAccount, keptMs, once.forMs])) === 1;
}

/** Lists the calls of every account since a time (ms), the oldest first. */
export async function listCalls(db: Db, { since = 0 }: { since?: number } = {}): Promise<RecordedCall[]> {
  const from = String(Math.max(0, Math.floor(since)));
  const accountIds = await db.redis.smembers(db.global.accounts);
  const found: RecordedCall[] = [];
  for (let start = 0; start < accountIds.length; start += accountsPerStep) {
    const page = accountIds.slice(start, start + accountsPerStep);
    const commands = db.redis.pipeline();
    for (const accountId of page) commands.xrange(db.global.accountCalls(accountId), from, '+');
    const streams = (await runPipeline(commands)) as [string, string[]][][];
    streams.forEach((entries, i) => {
      for (const [id, [, entry = '{}']] of entries) found.push(recordedCall(page[i] ?? '', id, entry));
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
