/** Shows who did what: operators' changes, calls of the API, changes of state. */
import { z } from 'zod';
import { hasPart } from '../acts/clients.js';
import { presentTime } from '../acts/present.js';
import { text, time } from '../http/schemas.js';
import { isClientToken } from '../ids.js';
import { oneAfterAnother } from '../promises.js';
import { inTimeOrder, listCalls, listChanges, type RecordedCall } from '../redis/records/audit.js';
import { getClient } from '../redis/records/clients.js';
import { listStateChanges, type StateChange } from '../redis/records/endpoint.js';
import { count } from '../web/words.js';
import { filledText, inOrder, when } from './input.js';
import { listed, notACursor, operation } from './operation.js';

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
  async run(operator, asked, { limit, after, isNewest = false }) {
    const { until = Number.POSITIVE_INFINITY, who = '', what = '', of } = asked;
    const isOfWeek = isNewest && [asked.since, asked.until, of].every((given) => given === undefined);
    const since = asked.since ?? (isOfWeek ? Date.now() - weekMs : 0);
    const db = await operator.db();
    const onBroken = (clientToken: string) =>
      operator.warn(`The changes of state of ${clientToken} cannot be read: its keys are broken.`);
    if (!/^\d{0,15}$/.test(after ?? '')) throw notACursor();
    const sinceMs = Math.max(0, Math.floor(since), Number(after ?? 0));
    const from = String(sinceMs);
    const client = of !== undefined && isClientToken(of) ? await getClient(db, of) : undefined;
    const read = () =>
      Promise.all([
        listChanges(db, from, of),
        listStateChanges(db, sinceMs, onBroken, of === undefined ? of : [of]),
        listCalls(db, from, of, client?.accountId),
      ]);
    const [commands, states, calls] = await (of === undefined ? inTurn(read) : read());
    const all = [
      // A call comes before its effects, even within one millisecond.
      ...calls.map((call) => ({ atMs: call.atMs, present: () => presentCall(call) })),
      ...commands.map(({ atMs, id: _, cancels: __, ...command }) => ({
        atMs,
        present: () => ({ at: atMs, ...command }),
      })),
      // An operator's change of a state has its own entry.
      ...states
        .filter(({ by }) => by !== 'operator')
        .map((change) => ({ atMs: change.at, present: () => presentStateChange(change) })),
    ];
    const found: ReturnType<(typeof all)[number]['present']>[] = [];
    for await (const page of inTimeOrder(all))
      for (const entry of page.map(({ present }) => present())) {
        if (entry.at > until || !hasPart(entry.who, who) || !hasPart(entry.what, what)) continue;
        if (of === undefined || JSON.stringify(entry).includes(JSON.stringify(of))) found.push(entry);
      }
    const columns = 'at who what target before after why';
    const none = 'No entry matches.';
    const shownOf = (entry: (typeof found)[number]) => ({ ...entry, at: presentTime(entry.at) });
    if (isNewest) {
      const entries = found.slice(-limit).reverse().map(shownOf);
      const cut = found.length > limit ? `; the newest ${limit} are shown` : '';
      const says = `${count(found.length, 'entry', 'entries')}${isOfWeek ? ' of the last 7 days' : ''}${cut}.`;
      return listed(entries, { columns, none }, says);
    }
    // A page ends with a millisecond, so that the next begins with another.
    const lastAt = found[limit - 1]?.at ?? Number.POSITIVE_INFINITY;
    const entries = found.filter(({ at }) => at <= lastAt).map(shownOf);
    const next = entries.length < found.length ? String(lastAt + 1) : undefined;
    return listed(entries, { columns, none, next });
  },
});

/** An audit of everybody reads every account and client. */
const inTurn = oneAfterAnother();
const weekMs = 7 * 86_400_000;

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
