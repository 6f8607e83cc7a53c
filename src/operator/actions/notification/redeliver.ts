import { redeliver } from '../../../redis/notifications/notifications.js';
import { getRegistration } from '../../../redis/records/registrations.js';
import type { Operator } from '../../operator.js';
import { Refused } from '../../refused.js';
import { requireNotification, unknownNotification } from './requireNotification.js';

export async function notificationRedeliver(operator: Operator, id: string): Promise<void> {
  const { clientToken, state } = await requireNotification(operator, id);
  const db = await operator.db();
  if ((await getRegistration(db, clientToken)) === undefined) {
    throw new Refused(`${clientToken} has no URL, so nothing can be sent.`);
  }
  const dueId = await redeliver(db, clientToken, id);
  if (dueId === undefined) throw unknownNotification(id);
  await operator.wake(clientToken);
  await operator.record({
    what: 'notification redeliver',
    target: id,
    before: { client_token: clientToken, state },
    after: { due: dueId },
  });
  operator.answer({ notification_id: dueId, client_token: clientToken, previous_state: state }, () =>
    dueId === id
      ? `${id} is due now (it was ${state}).`
      : `Its asset is owed by the newer ${dueId}, which is due now.`,
  );
}
