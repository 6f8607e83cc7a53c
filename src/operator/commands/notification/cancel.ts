import type { Command } from 'commander';
import { cancelNotification } from '../../../redis/notifications/notifications.js';
import type { Operator } from '../../operator.js';
import { Refused } from '../../refused.js';
import { parseNotificationId, requireNotification } from './requireNotification.js';

export function addCancel(notification: Command, operator: Operator): void {
  notification
    .command('cancel')
    .description('cancel a waiting notification')
    .argument('<id>', 'the notification', parseNotificationId)
    .action(async (id: string) => {
      const { clientToken, state, platformId } = await requireNotification(operator, id);
      if (!(await cancelNotification(await operator.db(), clientToken, id))) {
        const now = await requireNotification(operator, id);
        throw new Refused(`${id} no longer waits: it is ${now.state}.`);
      }
      await operator.record({
        what: 'notification cancel',
        target: id,
        before: { client_token: clientToken, platform_id: platformId, state },
        after: { state: 'cancelled' },
      });
      operator.answer(
        { notification_id: id, client_token: clientToken, state: 'cancelled' },
        () => `${id} is cancelled.`,
      );
    });
}
