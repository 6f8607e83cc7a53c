/** Who did what: operators' changes, calls of the API, changes of state. */
import { listCalls, listChanges, type RecordedCall } from '../redis/records/audit.js';
import { listStateChanges, type StateChange } from '../redis/records/endpoint.js';
import type { AddCommand, Operator } from './session.js';
import { moment, parseMoment, table } from './terminal.js';

export function addAuditCommand(add: AddCommand): void {
  add('audit', 'show who did what: operators, the API, and changes of state of registrations', audit)
    .option('--since <when>', 'a date, or how long ago (15m, 2h, 3d)', parseMoment)
    .option('--of <id>', 'only what names this client, account or notification');
}

interface Entry {
  atMs: number;
  who: string;
  what: string;
  target: string;
  before: unknown;
  after: unknown;
  /** The account of an API call. */
  call?: { account_id: string; address: string; token_fingerprint: string; request_id: string };
}

async function audit(operator: Operator, { since, of }: { since?: number; of?: string }): Promise<void> {
  const db = await operator.db();
  const onBroken = (clientToken: string) =>
    operator.warn(`The changes of state of ${clientToken} cannot be read: its keys are broken.`);
  const [commands, states, calls] = await Promise.all([
    listChanges(db, { since }),
    listStateChanges(db, { since, onBroken }),
    listCalls(db, { since }),
  ]);
  const all: Entry[] = [
    // A call comes before its effects, also within one millisecond.
    ...calls.map(entryOfCall),
    ...commands,
    ...states.filter(({ by }) => by !== 'operator').map(entryOfState),
  ];
  const entries = all
    .filter((entry) => of === undefined || JSON.stringify(entry).includes(JSON.stringify(of)))
    .sort((a, b) => a.atMs - b.atMs);
  operator.answer(
    entries.map(({ atMs, who, what, target, before, after, call }) => {
      return { at: moment(atMs), who, what, target, before, after, ...call };
    }),
    () =>
      table(
        ['AT', 'WHO', 'WHAT', 'TARGET', 'BEFORE', 'AFTER'],
        entries.map((e) => [moment(e.atMs), e.who, e.what, e.target, brief(e.before), brief(e.after)]),
        of === undefined ? 'Nothing was changed.' : `Nothing was done about ${of}.`,
      ),
  );
}

function entryOfCall({ atMs, accountId, clientToken, what, about, ...caller }: RecordedCall): Entry {
  const { address, tokenFingerprint: token_fingerprint, requestId: request_id } = caller;
  return {
    atMs,
    who: `${accountId} from ${address}`,
    what,
    // A link to the console belongs to no single client.
    target: clientToken || accountId,
    before: null,
    // The first token of a day is asked for without one.
    after: token_fingerprint === '' ? about : { ...about, token: token_fingerprint },
    call: { account_id: accountId, address, token_fingerprint, request_id },
  };
}

/** Returns a change of state by the service or a publisher; an operator's change has its own entry. */
function entryOfState({ atMs, clientToken, from, to, why, by }: StateChange): Entry {
  const [before, after] = [{ state: from }, { state: to, why }];
  return { atMs, who: `the ${by}`, what: 'registration state', target: clientToken, before, after };
}

/** At most so much of a value is in a row; `--json` has all of it. */
const briefLength = 50;

function brief(value: unknown): string {
  if (value === null || value === undefined) return '-';
  const text =
    typeof value !== 'object'
      ? String(value)
      : Object.entries(value)
          .map(([name, inner]) => `${name}=${typeof inner === 'object' ? JSON.stringify(inner) : inner}`)
          .join(' ');
  return text.length > briefLength ? `${text.slice(0, briefLength)}…` : text;
}
