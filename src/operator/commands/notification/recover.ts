import type { Command } from 'commander';
import type { ClientToken } from '../../../ids.js';
import { recoverFailed } from '../../../redis/notifications/notifications.js';
import type { Operator } from '../../operator.js';
import { parseClientToken, requireClient } from '../../requireClient.js';
import { moment, parseMoment } from '../../terminal/moment.js';

export function addRecover(notification: Command, operator: Operator): void {
  notification
    .command('recover')
    .description('make failed notifications owed again, unless the same asset has a newer one')
    .argument('<token>', 'the client', parseClientToken)
    .requiredOption('--since <when>', 'failed since this date, or this long ago (15m, 2h, 3d)', parseMoment)
    .option('--until <when>', 'failed until then (default: now)', parseMoment)
    .option('--dry-run', 'only count')
    .action(async (token: ClientToken, options: { since: number; until?: number; dryRun?: boolean }) => {
      await requireClient(operator, token);
      const dryRun = options.dryRun ?? false;
      const { since, until = Date.now() } = options;
      const { count } = await recoverFailed(await operator.db(), token, { since, until, dryRun });
      if (!dryRun) {
        await operator.record({
          what: 'notification recover',
          target: token,
          before: { since: moment(since), until: moment(until) },
          after: { count },
        });
        if (count > 0) await operator.wake(token);
      }
      operator.answer({ client_token: token, count, dry_run: dryRun }, () =>
        dryRun ? `${count} would be owed again.` : `${count} are owed again.`,
      );
    });
}
