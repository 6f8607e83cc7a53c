import type { Command } from 'commander';
import type { InSession } from '../inSession.js';
import { parseMoment } from '../terminal/moment.js';

const actions = () => import('../actions/auditTrail.js');

export function addAuditCommand(program: Command, inSession: InSession): void {
  program
    .command('audit')
    .description(
      'show who did what: operators, accounts through the API, and changes of state of registrations',
    )
    .option('--since <when>', 'a date, or how long ago (15m, 2h, 3d)', parseMoment)
    .action(inSession(actions, ({ audit }) => audit));
}
