/**
 * Keeps which accounts and clients have entries in the audit, by the minute: calls and changes of state stand beside their keys, and an
 * audit of everybody reads those of its time only. In a cluster it is in parts, like the index of owed clients.
 */
import { type Db, nowOf } from '../connection/db.js';
import { clientBase, partBeside, partsOf } from '../connection/keys.js';

type Kind = 'account' | 'client';

/** For so long an audit of everybody knows of calls and changes of state. */
const keptMs = 90 * 86_400_000;
/** The clocks of Redis and of the process that notes an entry may be apart by so much. */
const apartMs = 2000;
/** A span has about so many accounts and clients, and operators' changes. */
const marksPerSpan = 500;

const minuteOf = (atMs: number) => Math.floor(atMs / 60_000);
const msOf = (minute: number) => minute * 60_000;

/** Notes that an account or client has, or is about to get, an entry. @throws errors of Redis */
export async function noteMinute(db: Db, kind: Kind, id: string, atMs: number): Promise<void> {
  const { nodes, global, prefix } = db;
  const base = kind === 'client' ? clientBase(prefix, id) : global.accountCalls(id);
  const key = partBeside(nodes.isCluster, global.auditMinutes, base);
  const minutes = new Set([atMs - apartMs, atMs + apartMs].map(minuteOf));
  const members = [...minutes].flatMap((minute) => [minute, `${kind} ${id} ${minute}`]);
  await Promise.all([db.redis.zadd(key, ...members), db.redis.pexpire(key, keptMs)]);
}

/** Returns whether what was noted at one time finds an entry of another. */
export const isNoted = (atMs: number, notedMs: number): boolean => Math.abs(atMs - notedMs) <= apartMs;

/** A cluster may have the keys of a former single Redis. */
const keysOf = ({ nodes, global: { auditMinutes } }: Db): string[] => [
  ...new Set([auditMinutes, ...partsOf(nodes.isCluster, auditMinutes)]),
];

/** Forgets the minutes that are too old. Call it while Redis' clock is steady. */
export async function dropOldMinutes(db: Db): Promise<void> {
  const tooOld = minuteOf(nowOf(db) - keptMs);
  await Promise.all(keysOf(db).map((key) => db.redis.zremrangebyscore(key, 0, tooOld)));
}

export interface Span {
  /** Both included. */
  fromMs: number;
  toMs: number;
  /** Those that have entries in this time, and maybe some that have none. */
  accounts: string[];
  clients: string[];
  /** About how many commands of Redis it takes to find and to read it. */
  cost: number;
}

/** Cuts a time into spans that take about as long to read each, from its end on if `isNewest`. @throws errors of Redis */
export async function* spansOf(db: Db, { fromMs, toMs }: Pick<Span, 'fromMs' | 'toMs'>, isNewest: boolean) {
  for (let [from, to] = [minuteOf(fromMs), minuteOf(toMs)]; from <= to; ) {
    const border = await borderOf(db, from, to, isNewest);
    const [first, last] = isNewest ? [border, to] : [from, border];
    const marks = await Promise.all(
      keysOf(db).map((key) => db.redis.zrange(key, `${first}`, `${last}`, 'BYSCORE')),
    );
    const found = marks.flat().map((mark) => mark.split(' '));
    const of = (kind: Kind) => [...new Set(found.flatMap(([of, id = '']) => (of === kind ? [id] : [])))];
    yield {
      fromMs: Math.max(fromMs, msOf(first)),
      toMs: Math.min(toMs, msOf(last + 1) - 1),
      accounts: of('account'),
      clients: of('client'),
      cost: found.length + 2 * marks.length,
    } satisfies Span;
    [from, to] = isNewest ? [from, border - 1] : [border + 1, to];
  }
}

/** Returns the last minute of the next span, or the first if it is read from the end on. */
async function borderOf(db: Db, from: number, to: number, isNewest: boolean): Promise<number> {
  const { redis, global } = db;
  const parts = keysOf(db);
  const count = Math.ceil(marksPerSpan / Math.sqrt(parts.length));
  const marks = parts.map((key) =>
    isNewest
      ? redis.zrange(key, `${to}`, `${from}`, 'BYSCORE', 'REV', 'LIMIT', count - 1, 1)
      : redis.zrange(key, `${from}`, `${to}`, 'BYSCORE', 'LIMIT', count - 1, 1),
  );
  const [start, end] = [`${msOf(from)}`, `${msOf(to + 1) - 1}`];
  const changes = isNewest
    ? await redis.xrevrange(global.audit, end, start, 'COUNT', count)
    : await redis.xrange(global.audit, start, end, 'COUNT', count);
  const borders = (await Promise.all(marks)).flatMap(([mark]) => (mark ? [Number(mark.split(' ')[2])] : []));
  const change = changes[count - 1]?.[0];
  if (change !== undefined) borders.push(minuteOf(Number(change.split('-')[0])));
  return isNewest ? Math.max(from, ...borders) : Math.min(to, ...borders);
}
