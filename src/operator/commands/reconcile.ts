import { type Command, InvalidArgumentError } from 'commander';
import type { InSession } from '../inSession.js';
import { parseMoment } from '../terminal/moment.js';
import { parseAnyClient } from './clientToken.js';

const actions = () => import('../actions/reconcile.js');

/** Calls to Temporal a second: a few per cent of its capacity. */
const defaultPerSecond = 200;

export function addReconcileCommand(program: Command, inSession: InSession): void {
  program
    .command('reconcile')
    .description('account for every accepted event; exit status 1 if one is unaccounted for')
    .option('--since <when>', 'accepted since this date, or this long ago (15m, 2h, 3d)', parseMoment)
    .option('--client <token>', 'only of this client', parseAnyClient)
    .option('--per-second <n>', 'calls to Temporal', parsePerSecond, defaultPerSecond)
    .action(inSession(actions, ({ reconcileEvents }) => reconcileEvents));
}

function parsePerSecond(text: string): number {
  const perSecond = Number(text);
  if (!Number.isFinite(perSecond) || perSecond <= 0) throw new InvalidArgumentError('Give a number above 0.');
  return perSecond;
}
