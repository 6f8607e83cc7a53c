import type { ClientToken } from '../../../ids.js';
import { recoverFailed } from '../../../redis/notifications/notifications.js';
import type { Operator } from '../../operator.js';
import { requireClient } from '../../requireClient.js';
import { moment } from '../../terminal/moment.js';

export async function notificationRecover(
  operator: Operator,
  token: ClientToken,
  options: { since: number; until?: number; dryRun?: boolean },
): Promise<void> {
  await requireClient(operator, token);
  const dryRun = options.dryRun ?? false;
  const { since, until = Date.now() } = options;
  const { count } = await operator.change((db) => recoverFailed(db, token, { since, until, dryRun }));
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
}
