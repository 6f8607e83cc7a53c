import type { Command } from 'commander';
import { listChanges } from '../store/audit.js';
import { listStateChanges, type StateChange } from '../store/stateChanges.js';
import { moment, parseMoment } from './moment.js';
import type { Operator } from './operator.js';
import { table } from './table.js';

export function addAuditCommand(program: Command, operator: Operator): void {
  program
    .command('audit')
    .description(
      'what operators changed, and each state that a registration came to: who, when, before, after',
    )
    .option('--since <when>', 'a date, or how long ago (15m, 2h, 3d)', parseMoment)
    .action(async ({ since }: { since?: number }) => {
      const range = since === undefined ? {} : { since };
      const db = await operator.db();
      const [commands, states] = await Promise.all([listChanges(db, range), listStateChanges(db, range)]);
      const changes = [...commands, ...states.filter((s) => s.by !== 'operator').map(asChange)].sort(
        (a, b) => a.atMs - b.atMs,
      );
      operator.answer(
        changes.map(({ atMs, who, what, target, before, after }) => ({
          at: moment(atMs),
          who,
          what,
          target,
          before,
          after,
        })),
        () =>
          table(
            ['AT', 'WHO', 'WHAT', 'TARGET', 'BEFORE', 'AFTER'],
            changes.map((c) => [moment(c.atMs), c.who, c.what, c.target, brief(c.before), brief(c.after)]),
            'Nothing was changed.',
          ),
      );
    });
}

/** What the service or a publisher did to a registration; what an operator did has an entry of its own. */
function asChange({ atMs, clientToken, from, to, why, by }: StateChange) {
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
