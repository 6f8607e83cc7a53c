/** The audit of operators' changes: a stream of the newest 100,000 entries. */
import type { Db } from '../connection/db.js';

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

export interface RecordedChange extends Change {
  id: string;
  /** Redis' own clock, ms. */
  atMs: number;
}

const kept = 100_000;
const page = 1000;
const secretName = /(secret|password|access_token|authorization|signing_key)/i;

/** Writes one change. Values named like a secret are always left out. */
export async function recordChange(db: Db, change: Change): Promise<void> {
  await db.redis.xadd(
    db.global.audit,
    'MAXLEN',
    '~',
    kept,
    '*',
    'who',
    change.who,
    'what',
    change.what,
    'target',
    change.target,
    'before',
    withoutSecrets(change.before),
    'after',
    withoutSecrets(change.after),
  );
}

/** Returns the changes since a time (ms), the oldest first. */
export async function listChanges(db: Db, options: { since?: number } = {}): Promise<RecordedChange[]> {
  const changes: RecordedChange[] = [];
  let from = options.since === undefined ? '-' : String(Math.max(0, Math.floor(options.since)));
  for (;;) {
    const found = await onePage(db, from);
    changes.push(...found);
    const last = found.at(-1);
    if (last === undefined || found.length < page) return changes;
    from = `(${last.id}`;
  }
}

/** Returns the first changes after an entry, the oldest first. */
export function changesSince(db: Db, id: string): Promise<RecordedChange[]> {
  return onePage(db, `(${id}`);
}

/** Returns the last entry that is in the service's log. */
export async function toldUntil(db: Db): Promise<string> {
  return (await db.redis.get(db.global.auditTold)) ?? '0-0';
}

export async function tellUntil(db: Db, id: string): Promise<void> {
  await db.redis.set(db.global.auditTold, id);
}

async function onePage(db: Db, from: string): Promise<RecordedChange[]> {
  const entries = await db.redis.xrange(db.global.audit, from, '+', 'COUNT', page);
  return entries.map(([id, fields]) => recordedChange(id, fields));
}

/** When an entry was written, by Redis' own clock, ms. */
export function writtenAtMs(id: string): number {
  return Number(id.split('-')[0]);
}

function withoutSecrets(value: unknown): string {
  return (
    JSON.stringify(value, (name, inner: unknown) => (secretName.test(name) ? undefined : inner)) ?? 'null'
  );
}

function recordedChange(id: string, fields: string[]): RecordedChange {
  const record = new Map<string, string>();
  for (let i = 0; i + 1 < fields.length; i += 2) record.set(fields[i] ?? '', fields[i + 1] ?? '');
  const field = (name: string) => record.get(name) ?? '';
  return {
    id,
    atMs: writtenAtMs(id),
    who: field('who'),
    what: field('what'),
    target: field('target'),
    before: JSON.parse(field('before') || 'null'),
    after: JSON.parse(field('after') || 'null'),
  };
}
