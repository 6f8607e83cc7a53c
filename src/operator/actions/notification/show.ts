import type { NotificationRecord } from '../../../redis/notifications/notifications.js';
import type { Operator } from '../../operator.js';
import { presentToOperator, workflowInWords, workflowOf } from '../../presentToOperator.js';
import { moment } from '../../terminal/moment.js';
import { facts, table } from '../../terminal/table.js';
import { describeNext } from './describeNext.js';
import { requireNotification } from './requireNotification.js';

export async function notificationShow(operator: Operator, id: string): Promise<void> {
  const found = await requireNotification(operator, id);
  operator.answer(presentToOperator(operator, found), () => describe(operator, found));
}

function describe(operator: Operator, n: NotificationRecord): string {
  const head = facts({
    notification: n.notificationId,
    client: n.clientToken,
    asset: n.platformId,
    event: n.eventId,
    state: n.by === undefined ? n.state : `${n.state} (by ${n.by})`,
    reason: n.reason,
    priority: n.priority,
    accepted: moment(n.acceptedAt),
    ended: moment(n.endedAt),
    'next attempt': describeNext(n),
    workflow: workflowInWords(workflowOf(operator, n)),
  });
  const attempts = table(
    ['ATTEMPT AT', 'STATUS', 'MS', 'ERROR', 'ADDRESS', 'URL', 'ANSWER'],
    n.attempts.map((a) => [
      moment(a.at),
      a.status,
      Math.round(a.milliseconds),
      a.error,
      a.remote_address,
      a.url,
      a.response_excerpt?.slice(0, 60),
    ]),
    'No attempts yet.',
  );
  return `${head}\n\n${attempts}`;
}
