import { listChanges } from '../../redis/records/audit.js';
import { listCalls, type RecordedCall } from '../../redis/records/auditCalls.js';
import { listStateChanges, type StateChange } from '../../redis/records/stateChanges.js';
import { parseMoment } from '../arguments.js';
import type { AddCommand, Operator } from '../operator.js';
import { table } from '../terminal/table.js';
import { moment } from '../terminal/words.js';

export function addAuditCommand(add: AddCommand): void {
  add('audit', 'show who did what: operators, the API, and changes of state of registrations', audit).option(
    '--since <when>',
    'a date, or how long ago (15m, 2h, 3d)',
    parseMoment,
  );
}

async function audit(operator: Operator, { since }: { since?: number }): Promise<void> {
  const db = await operator.db();
  const [commands, states, calls] = await Promise.all([
    listChanges(db, { since }),
    listStateChanges(db, {
      since,
      onBroken: (clientToken) =>
        operator.warn(`The changes of state of ${clientToken} cannot be read: its keys are broken.`),
    }),
    listCalls(db, { since }),
  ]);
  const changes: Entry[] = [
    // A call comes before its effects, also within one millisecond.
    ...calls.map(asEntry),
    ...commands,
    ...states.filter((s) => s.by !== 'operator').map(asChange),
  ].sort((a, b) => a.atMs - b.atMs);
  operator.answer(
    changes.map(({ atMs, who, what, target, before, after, call }) => ({
      at: moment(atMs),
      who,
      what,
      target,
      before,
      after,
      ...call,
    })),
    () =>
      table(
        ['AT', 'WHO', 'WHAT', 'TARGET', 'BEFORE', 'AFTER'],
        changes.map((c) => [moment(c.atMs), c.who, c.what, c.target, brief(c.before), brief(c.after)]),
        'Nothing was changed.',
      ),
  );
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

/** Returns the entries of API calls. */
function asEntry({ atMs, accountId, clientToken, what, about, ...caller }: RecordedCall): Entry {
  const { address, tokenFingerprint: token_fingerprint, requestId: request_id } = caller;
  return {
    atMs,
    who: `${accountId} from ${address}`,
    what,
    // A link to the console belongs to no single client.
    target: clientToken || accountId,
    before: null,
    after: { ...about, token: token_fingerprint },
    call: { account_id: accountId, address, token_fingerprint, request_id },
  };
}

/** Returns changes of state by the service or a publisher; an operator's change has its own entry. */
function asChange({ atMs, clientToken, from, to, why, by }: StateChange): Entry {
  const after = { state: to, why };
  return {
    atMs,
    who: `the ${by}`,
    what: 'registration state',
    target: clientToken,
    before: { state: from },
    after,
  };
}

function brief(value: unknown): string {
  if (value === null || value === undefined) return '-';
  if (typeof value !== 'object') return String(value);
  return Object.entries(value)
    .map(([name, inner]) => `${name}=${typeof inner === 'object' ? JSON.stringify(inner) : String(inner)}`)
    .join(' ');
}
