import { cancelNotification } from '../../../redis/notifications/notifications.js';
import type { Operator } from '../../operator.js';
import { Refused } from '../../refused.js';
import { requireNotification } from './requireNotification.js';

export async function notificationCancel(operator: Operator, id: string): Promise<void> {
  const { clientToken, state, platformId } = await requireNotification(operator, id);
  if (!(await operator.change((db) => cancelNotification(db, clientToken, id)))) {
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
}
