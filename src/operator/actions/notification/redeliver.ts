import { makeDue } from '../../../redis/notifications/notifications.js';
import { getRegistration } from '../../../redis/records/registrations.js';
import type { Operator } from '../../operator.js';
import { Refused } from '../../refused.js';
import { requireNotification, unknownNotification } from './requireNotification.js';

export async function notificationRedeliver(operator: Operator, id: string): Promise<void> {
  const { clientToken, platformId, state } = await requireNotification(operator, id);
  const db = await operator.db();
  if ((await getRegistration(db, clientToken)) === undefined) {
    throw new Refused(`${clientToken} has no URL, so nothing can be sent.`);
  }
  const outcome = await makeDue(db, clientToken, id);
  switch (outcome) {
    case 'due':
      await operator.wake(clientToken);
      break;
    case 'ended': {
      const { startRedeliver } = await import('../../../temporal/redeliver.js');
      const input = { clientToken, platformId, notificationId: id };
      await startRedeliver(await operator.temporal(), input, operator.config().TASK_QUEUE);
      break;
    }
    case 'unknown':
      throw unknownNotification(id);
  }
  await operator.record({
    what: 'notification redeliver',
    target: id,
    before: { client_token: clientToken, state },
    after: { sent_again: outcome === 'due' ? 'due now' : 'started' },
  });
  operator.answer({ notification_id: id, client_token: clientToken, previous_state: state }, () =>
    outcome === 'due' ? `${id} is due now.` : `${id} is sent again now (it was ${state}).`,
  );
}
