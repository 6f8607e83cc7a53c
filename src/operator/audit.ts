/** Shows who did what: operators' changes, calls of the API, changes of state. */
import { listCalls, listChanges, type RecordedCall } from '../redis/records/audit.js';
import { listStateChanges, type StateChange } from '../redis/records/endpoint.js';
import type { AddCommand, Operator } from './session.js';
import { moment, parseMoment, table } from './terminal.js';

export function addAuditCommand(add: AddCommand): void {
  add('audit', 'show who did what: operators, the API, and changes of state of registrations', audit)
    .option('--since <when>', 'a date, or how long ago (15m, 2h, 3d)', parseMoment)
    .option('--of <id>', 'only what names this client, account or notification');
}

async function audit(operator: Operator, { since = 0, of }: { since?: number; of?: string }) {
  const db = await operator.db();
  const onBroken = (clientToken: string) =>
    operator.warn(`The changes of state of ${clientToken} cannot be read: its keys are broken.`);
  const from = String(Math.max(0, Math.floor(since)));
  const [commands, states, calls] = await Promise.all([
    listChanges(db, from),
    listStateChanges(db, { since, onBroken }),
    listCalls(db, from),
  ]);
  const all = [
    // A call comes before its effects, even within one millisecond.
    ...calls.map(presentCall),
    ...commands.map(({ atMs, id: _, ...command }) => ({ at: atMs, ...command })),
    // An operator's change of a state has its own entry.
    ...states.filter(({ by }) => by !== 'operator').map(presentStateChange),
  ];
  const entries = all
    .filter((entry) => of === undefined || JSON.stringify(entry).includes(JSON.stringify(of)))
    .sort((a, b) => a.at - b.at)
    .map((entry) => ({ ...entry, at: moment(entry.at) }));
  operator.answer(
    entries,
    table(
      ['AT', 'WHO', 'WHAT', 'TARGET', 'CHANGE'],
      entries.map(({ at, who, what, target, before, after }) => {
        const change = before === null ? brief(after) : `${brief(before)} -> ${brief(after)}`;
        return [at?.replace(/\.\d+/, ''), who, what, target, change];
      }),
      of === undefined ? 'Nothing was changed.' : `Nothing was done about ${of}.`,
    ),
  );
}

function presentCall({ atMs, accountId, clientToken, what, about, ...caller }: RecordedCall) {
  const { address, tokenFingerprint: token_fingerprint, requestId: request_id } = caller;
  return {
    at: atMs,
    who: `${accountId} from ${address}`,
    what,
    // A link to the console belongs to no single client.
    target: clientToken || accountId,
    before: null,
    // The first token of a day is asked for without a token.
    after: token_fingerprint === '' ? about : { ...about, token: token_fingerprint },
    account_id: accountId,
    address,
    token_fingerprint,
    request_id,
  };
}

function presentStateChange({ atMs, clientToken, from, to, why, by }: StateChange) {
  const [before, after] = [{ state: from }, { state: to, why }];
  return { at: atMs, who: `the ${by}`, what: 'registration state', target: clientToken, before, after };
}

/** At most so much of a value is in a row; `--json` has all of it. */
const briefLength = 50;

function brief(value: unknown): string {
  const text = Object.entries(value ?? {})
    .map(([name, inner]) => `${name}=${typeof inner === 'object' ? JSON.stringify(inner) : inner}`)
    .join(' ');
  return text.length > briefLength ? `${text.slice(0, briefLength)}…` : text || '-';
}
