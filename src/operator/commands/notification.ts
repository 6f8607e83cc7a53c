import { type Command, InvalidArgumentError, Option } from 'commander';
import { isNotificationId } from '../../ids.js';
import { notificationStates } from '../../redis/notifications/notificationStates.js';
import type { InSession } from '../inSession.js';
import { parseLimit } from '../parseLimit.js';
import { parseMoment } from '../terminal/moment.js';
import { parseAnyClient } from './clientToken.js';

export function addNotificationCommands(program: Command, inSession: InSession): void {
  const notification = program
    .command('notification')
    .description('list, send again, recover or cancel notifications');

  notification
    .command('list')
    .description('list the newest notifications, of all clients or of one')
    .option('--client <token>', 'only of this client', parseAnyClient)
    .addOption(new Option('--state <state>', 'only in this state').choices(notificationStates))
    .option('--since <when>', 'accepted since this date, or this long ago (15m, 2h, 3d)', parseMoment)
    .option('--limit <n>', 'at most this many', parseLimit(10_000), 50)
    .action(
      inSession(
        () => import('../actions/notification/list.js'),
        ({ notificationList }) => notificationList,
      ),
    );
  notification
    .command('show')
    .description('show one notification and its attempts')
    .argument('<id>', 'the notification', parseNotificationId)
    .action(
      inSession(
        () => import('../actions/notification/show.js'),
        ({ notificationShow }) => notificationShow,
      ),
    );
  notification
    .command('redeliver')
    .description('send a notification again now, under the same id; a waiting one becomes due now')
    .argument('<id>', 'the notification', parseNotificationId)
    .action(
      inSession(
        () => import('../actions/notification/redeliver.js'),
        ({ notificationRedeliver }) => notificationRedeliver,
      ),
    );
  notification
    .command('cancel')
    .description('cancel a waiting notification')
    .argument('<id>', 'the notification', parseNotificationId)
    .action(
      inSession(
        () => import('../actions/notification/cancel.js'),
        ({ notificationCancel }) => notificationCancel,
      ),
    );
  notification
    .command('recover')
    .description('make failed notifications owed again, unless the same asset has a newer one')
    .argument('<token>', 'the client', parseAnyClient)
    .requiredOption('--since <when>', 'failed since this date, or this long ago (15m, 2h, 3d)', parseMoment)
    .option('--until <when>', 'failed until then (default: now)', parseMoment)
    .option('--dry-run', 'only count')
    .action(
      inSession(
        () => import('../actions/notification/recover.js'),
        ({ notificationRecover }) => notificationRecover,
      ),
    );
}

/** Reads a notification id as an argument. */
function parseNotificationId(text: string): string {
  if (!isNotificationId(text))
    throw new InvalidArgumentError('A notification id is msg_ followed by 22 characters.');
  return text;
}
