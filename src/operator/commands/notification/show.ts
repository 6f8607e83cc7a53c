import type { Command } from 'commander';
import type { NotificationRecord } from '../../../redis/notifications/notifications.js';
import type { Operator } from '../../operator.js';
import { presentNotification, workflowInWords, workflowOf } from '../../presentNotification.js';
import { moment } from '../../terminal/moment.js';
import { facts, table } from '../../terminal/table.js';
import { knownNotification, parseNotificationId } from './knownNotification.js';
import { nextInWords } from './nextInWords.js';

export function addShow(notification: Command, operator: Operator): void {
  notification
    .command('show')
    .description('one notification and its attempts')
    .argument('<id>', 'the notification', parseNotificationId)
    .action(async (id: string) => {
      const found = await knownNotification(operator, id);
      operator.answer(presentNotification(operator, found), () => inWords(operator, found));
    });
}

function inWords(operator: Operator, n: NotificationRecord): string {
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
    'next attempt': nextInWords(n),
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
