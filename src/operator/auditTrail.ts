import type { Command } from 'commander';
import { listChanges } from '../store/audit.js';
import { moment, parseMoment } from './moment.js';
import type { Operator } from './operator.js';
import { table } from './table.js';

export function addAuditCommand(program: Command, operator: Operator): void {
  program
    .command('audit')
    .description('what operators changed: who, when, what, before and after')
    .option('--since <when>', 'a date, or how long ago (15m, 2h, 3d)', parseMoment)
    .action(async ({ since }: { since?: number }) => {
      const changes = await listChanges(await operator.db(), since === undefined ? {} : { since });
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

function brief(value: unknown): string {
  if (value === null || value === undefined) return '-';
  if (typeof value !== 'object') return String(value);
  return Object.entries(value)
    .map(([name, inner]) => `${name}=${typeof inner === 'object' ? JSON.stringify(inner) : String(inner)}`)
    .join(' ');
}
