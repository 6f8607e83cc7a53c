/** Shows who did what: operators' changes, calls of the API, changes of state. */
import { z } from 'zod';
import { hasPart } from '../acts/clients.js';
import { presentTime } from '../acts/present.js';
import { text, time } from '../http/schemas.js';
import { isClientToken } from '../ids.js';
import type { Db } from '../redis/connection/db.js';
import { getAccount } from '../redis/records/accounts.js';
import { inTimeOrder, listCalls, listChanges, type RecordedCall } from '../redis/records/audit.js';
import { type Span, spansOf } from '../redis/records/auditMinutes.js';
import { getClient } from '../redis/records/clients.js';
import { listStateChanges, type StateChange } from '../redis/records/endpoint.js';
import { count } from '../web/words.js';
import { filledText, inOrder, when } from './input.js';
import { listed, notACursor, type Operator, operation, type Page, unlimited } from './operation.js';

export const audit = operation({
  command: 'audit',
  does: 'show who did what, the oldest first: operators, the API, changes of state of registrations',
  role: 'look',
  input: inOrder(
    z.object({
      since: when.optional().describe('since this date, or this long ago (15m, 2h, 3d)'),
      until: when.optional().describe('until this date, or how long ago'),
      who: filledText.optional().describe('only by an operator or account with this text in the name'),
      what: filledText.optional().describe('only operations with this text'),
      of: filledText.optional().describe('only what names this client, account or notification'),
    }),
  ),
  answers: z.object({
    at: time(),
    who: text('Ada (ada)'),
    what: text('registration reset'),
    target: text('SITE0042'),
    before: z.unknown(),
    after: z.unknown(),
    why: text('ticket 4711').optional(),
    account_id: text('acc_7Qd2mVx0aB1c').optional(),
    address: text('198.51.100.7').optional(),
    token_fingerprint: text('9f86d081884c').optional(),
    link_by: text('Ada (link)').optional(),
    request_id: text('0b2f1d0e-5a4c-4c0e-9a43-1f2d6f0c7b11').optional(),
  }),
  list: 'entries',
  async run(operator, asked, page) {
    const { until = latestMs, of } = asked;
    const { limit, isNewest = false, after } = page;
    const isOfWeek =
      isNewest &&
      limit < unlimited.limit &&
      [asked.since, asked.until, of].every((given) => given === undefined);
    const since = asked.since ?? (isOfWeek ? Date.now() - weekMs : 0);
    if (!/^\d{0,15}$/.test(after ?? '')) throw notACursor();
    const time = {
      fromMs: Math.max(0, Math.floor(since), Number(after ?? 0)),
      toMs: Math.max(0, Math.floor(until)),
    };
    const db = await operator.db();
    const one = of === undefined ? undefined : await spanOf(db, time, of);
    const read = () => readSpans(operator, one ? [one] : spansOf(db, time, isNewest), asked, page);
    const { found, readMs } = await (one ? read() : inTurn(read));
    const isAll = isNewest ? readMs <= time.fromMs : readMs >= time.toMs;
    const columns = 'at who what target before after why';
    const none = 'No entry matches.';
    const shownOf = (entry: Entry) => ({ ...entry, at: presentTime(entry.at) });
    const isCut = found.length > limit;
    if (isNewest) {
      const entries = found.slice(-limit).reverse().map(shownOf);
      const shown = `${isCut ? 'The newest ' : ''}${count(entries.length, 'entry', 'entries')}`;
      const span = isOfWeek ? ' of the last 7 days' : '';
      const rest = isAll || isCut ? '' : ` What is older than ${presentTime(readMs)} was not looked at.`;
      return listed(entries, { columns, none }, `${shown}${span}.${rest}`);
    }
    // A page ends with a millisecond, so that the next begins with another.
    const lastAt = found[limit - 1]?.at ?? Number.POSITIVE_INFINITY;
    const entries = found.filter(({ at }) => at <= lastAt).map(shownOf);
    const nextMs = (entries.length < found.length ? lastAt : readMs) + 1;
    const next = isAll && entries.length === found.length ? undefined : String(nextMs);
    return listed(entries, { columns, none, next });
  },
});

let last: Promise<unknown> = Promise.resolve();

/** One audit of everybody at a time reads, so that others have time; an account's own waits for none. */
function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const turn = last.then(work);
  last = turn.catch(() => undefined);
  return turn;
}

const weekMs = 7 * 86_400_000;
/** Of JavaScript's dates. */
const latestMs = 8.64e15;
/** A page takes so many commands of Redis at most, and those of its last span. */
const costOfPage = 20_000;

/** Returns whose entries may name an account or a client; undefined for any other text. */
async function spanOf(db: Db, time: Pick<Span, 'fromMs' | 'toMs'>, of: string): Promise<Span | undefined> {
  const client = isClientToken(of) ? await getClient(db, of) : undefined;
  const accountId = client?.accountId ?? of;
  if (client === undefined && (await getAccount(db, accountId)) === undefined) return;
  const others = client ? await db.redis.smembers(db.client(of).callers) : [];
  return { ...time, accounts: [accountId, ...others], clients: [of], cost: 0 };
}

type Entry = ReturnType<typeof presentCall | typeof presentStateChange | typeof presentChange>;

type Asked = { until?: number; who?: string; what?: string; of?: string };

/**
 * Reads the entries that match, in order of time, until there are more than a page's.
 * @returns readMs up to when they were read, or from when on if the newest are asked for
 */
async function readSpans(
  operator: Operator,
  spans: AsyncIterable<Span> | Span[],
  { who = '', what = '', of }: Asked,
  { limit, isNewest = false }: Page,
): Promise<{ found: Entry[]; readMs: number }> {
  const parts: Entry[][] = [];
  let [cost, matching] = [0, 0];
  let readMs = isNewest ? 0 : Number.POSITIVE_INFINITY;
  for await (const span of spans) {
    const entries: Entry[] = [];
    for await (const some of inTimeOrder(await readSpan(operator, span, of)))
      for (const entry of some.map(({ present }) => present())) {
        if (!hasPart(entry.who, who) || !hasPart(entry.what, what)) continue;
        if (of === undefined || JSON.stringify(entry).includes(JSON.stringify(of))) entries.push(entry);
      }
    parts.push(entries);
    matching += entries.length;
    cost += span.cost;
    readMs = isNewest ? span.fromMs : span.toMs;
    if (matching > limit || (cost > costOfPage && limit < unlimited.limit)) break;
  }
  return { found: (isNewest ? parts.reverse() : parts).flat(), readMs };
}

async function readSpan(
  operator: Operator,
  { fromMs, toMs, accounts, clients }: Span,
  of?: string,
): Promise<{ atMs: number; present: () => Entry }[]> {
  const db = await operator.db();
  const onBroken = (clientToken: string) =>
    operator.warn(`The changes of state of ${clientToken} cannot be read: its keys are broken.`);
  const ids: [string, string] = [`${fromMs}`, `${toMs}`];
  const [commands, states, calls] = await Promise.all([
    listChanges(db, ...ids, of),
    listStateChanges(db, clients, fromMs, onBroken),
    listCalls(db, accounts, ids, of === accounts[0] ? undefined : of),
  ]);
  return [
    // A call comes before its effects, even within one millisecond.
    ...calls.map((call) => ({ atMs: call.atMs, present: () => presentCall(call) })),
    ...commands.map((change) => ({ atMs: change.atMs, present: () => presentChange(change) })),
    // An operator's change of a state has its own entry.
    ...states
      .filter(({ by, at }) => by !== 'operator' && at <= toMs)
      .map((change) => ({ atMs: change.at, present: () => presentStateChange(change) })),
  ];
}

type ListedChange = Awaited<ReturnType<typeof listChanges>>[number];

const presentChange = ({ atMs, id: _, cancels: __, ...change }: ListedChange) => ({ at: atMs, ...change });

function presentCall({ atMs, accountId, clientToken, what, about, ...caller }: RecordedCall) {
  const { address, by, tokenFingerprint: token_fingerprint, requestId: request_id } = caller;
  return {
    at: atMs,
    who: `${accountId} from ${address}${by === undefined ? '' : `, by a link of ${by}`}`,
    what,
    // A link to the console belongs to no single client.
    target: clientToken || accountId,
    before: null,
    why: undefined,
    // The first token of a day is asked for without a token.
    after: token_fingerprint === '' ? about : { ...about, token: token_fingerprint },
    account_id: accountId,
    address,
    ...(by !== undefined && { link_by: by }),
    token_fingerprint,
    request_id,
  };
}

function presentStateChange({ at, clientToken, from, to, why, by }: StateChange) {
  const change = { before: { state: from }, after: { state: to, why }, why: undefined };
  return { at, who: `the ${by}`, what: 'registration state', target: clientToken, ...change };
}
