import { Option } from 'commander';
import type { ClientToken } from '../../ids.js';
import { notificationStates } from '../../redis/notifications/notificationStates.js';
import {
  cancelNotification,
  findNotification,
  type NotificationRecord,
  recoverFailed,
  redeliver as redeliverNotification,
} from '../../redis/notifications/notifications.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { parseAnyClient, parseLimit, parseMoment } from '../arguments.js';
import { type AddCommand, type Operator, Refused, requireClient } from '../operator.js';
import { describeNext, presentToOperator, workflowInWords, workflowOf } from '../presentToOperator.js';
import { facts, table } from '../terminal/table.js';
import { moment } from '../terminal/words.js';
import { notificationList } from './notificationList.js';

export function addNotificationCommands(add: AddCommand): void {
  add('list', 'list the newest notifications, of all clients or of one', notificationList)
    .option('--client <token>', 'only of this client', parseAnyClient)
    .addOption(new Option('--state <state>', 'only in this state').choices(notificationStates))
    .option('--since <when>', 'accepted since this date, or this long ago (15m, 2h, 3d)', parseMoment)
    .option('--limit <n>', 'at most this many', parseLimit, 50);
  add('show <notification-id>', 'show one notification and its attempts', show);
  add('redeliver <notification-id>', 'send a notification again now, or make a waiting one due', redeliver);
  add('cancel <notification-id>', 'cancel a waiting notification', cancel);
  add('recover <token>', 'make failed notifications owed again, unless the asset has a newer one', recover)
    .requiredOption('--since <when>', 'failed since this date, or this long ago (15m, 2h, 3d)', parseMoment)
    .option('--until <when>', 'failed until then (default: now)', parseMoment)
    .option('--dry-run', 'only count');
}

async function show(operator: Operator, id: string): Promise<void> {
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

async function redeliver(operator: Operator, id: string): Promise<void> {
  const { clientToken, state } = await requireNotification(operator, id);
  const db = await operator.db();
  if ((await getRegistration(db, clientToken)) === undefined) {
    throw new Refused(`${clientToken} has no URL, so nothing can be sent.`);
  }
  const dueId = await operator.change((own) => redeliverNotification(own, clientToken, id));
  await operator.wake(clientToken);
  await operator.record('notification redeliver', id, { client_token: clientToken, state }, { due: dueId });
  operator.answer({ notification_id: dueId, client_token: clientToken, previous_state: state }, () =>
    dueId === id
      ? `${id} is due now (it was ${state}).`
      : `Its asset is owed by the newer ${dueId}, which is due now.`,
  );
}

async function cancel(operator: Operator, id: string): Promise<void> {
  const { clientToken, state, platformId } = await requireNotification(operator, id);
  if (!(await operator.change((db) => cancelNotification(db, clientToken, id)))) {
    const now = await requireNotification(operator, id);
    throw new Refused(`${id} no longer waits: it is ${now.state}.`);
  }
  const before = { client_token: clientToken, platform_id: platformId, state };
  await operator.record('notification cancel', id, before, { state: 'cancelled' });
  const answer = { notification_id: id, client_token: clientToken, state: 'cancelled' };
  operator.answer(answer, () => `${id} is cancelled.`);
}

async function recover(
  operator: Operator,
  token: ClientToken,
  { since, until = Date.now(), dryRun = false }: { since: number; until?: number; dryRun?: boolean },
): Promise<void> {
  await requireClient(operator, token);
  const { count } = await operator.change((db) => recoverFailed(db, token, { since, until, dryRun }));
  if (!dryRun) {
    const range = { since: moment(since), until: moment(until) };
    await operator.record('notification recover', token, range, { count });
    if (count > 0) await operator.wake(token);
  }
  operator.answer({ client_token: token, count, dry_run: dryRun }, () =>
    dryRun ? `${count} would be owed again.` : `${count} are owed again.`,
  );
}

/** @throws Refused if there is no such notification */
async function requireNotification(operator: Operator, id: string): Promise<NotificationRecord> {
  const found = await findNotification(await operator.db(), id);
  if (found !== undefined) return found;
  throw new Refused(`There is no notification ${id}; records are kept for 14 days after their end.`);
}
