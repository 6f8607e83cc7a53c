/** Notifications: listed, shown, sent again, cancelled, recovered. */
import { InvalidArgumentError, Option } from 'commander';
import type { ClientToken } from '../ids.js';
import { newestNotifications } from '../redis/notifications/notificationPages.js';
import {
  findNotification,
  getNotification,
  type NotificationRecord,
} from '../redis/notifications/notifications.js';
import {
  cancelNotification,
  recoverFailed,
  redeliver as redeliverNotification,
} from '../redis/notifications/redeliver.js';
import { type NotificationState, notificationStates } from '../redis/owed/standing.js';
import { listClients } from '../redis/records/clients.js';
import { getRegistration } from '../redis/records/registrations.js';
import { answerWith, describeNext, present } from './explain.js';
import { type AddCommand, type Operator, Refused, requireClient } from './session.js';
import { moment, parseAnyClient, parseMoment, table } from './terminal.js';

export function addNotificationCommands(add: AddCommand): void {
  add('list', 'list the newest notifications, of all clients or of one', list)
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

interface ListOptions {
  client?: ClientToken;
  state?: NotificationState;
  since?: number;
  limit: number;
}

function parseLimit(text: string): number {
  const limit = Number(text);
  if (Number.isSafeInteger(limit) && limit >= 1 && limit <= 10_000) return limit;
  throw new InvalidArgumentError('Give a whole number from 1 to 10000.');
}

async function list(operator: Operator, options: ListOptions) {
  const db = await operator.db();
  const client = options.client && (await requireClient(operator, options.client));
  const clientTokens = (client ? [client] : await listClients(db)).map(({ clientToken }) => clientToken);
  const found = await newestNotifications(db, clientTokens, options);
  operator.answer(
    await Promise.all(found.map((n) => present(operator, n))),
    table(
      ['NOTIFICATION', 'CLIENT', 'ASSET', 'STATE', 'ACCEPTED', 'NEXT'],
      found.map((n) => {
        const { notificationId, clientToken, platformId, state } = n;
        return [notificationId, clientToken, platformId, state, moment(n.acceptedAt), describeNext(n)];
      }),
      'No notifications match.',
    ),
  );
}

async function show(operator: Operator, id: string) {
  await answerWith(operator, await requireNotification(operator, id));
}

async function redeliver(operator: Operator, id: string) {
  const { clientToken, state } = await requireNotification(operator, id);
  const db = await operator.db();
  if ((await getRegistration(db, clientToken)) === undefined) {
    throw new Refused(`${clientToken} has no URL, so nothing can be sent.`);
  }
  const dueId = await operator.change((own) => redeliverNotification(own, clientToken, id));
  if (dueId === undefined) throw new Refused(`The record of ${id} has just expired.`);
  await operator.wake(clientToken);
  await operator.record('notification redeliver', id, { client_token: clientToken, state }, { due: dueId });
  const due = await getNotification(db, clientToken, dueId);
  const reason = due?.waitingReason;
  const isSentNow = due === undefined || reason === undefined || reason === 'due' || reason === 'in_flight';
  const how = isSentNow ? 'due now' : `owed. Next attempt: ${describeNext(due)}`;
  const which = dueId === id ? `${id} (it was ${state})` : `Its asset is owed by the newer ${dueId}, which`;
  const answer = { notification_id: dueId, client_token: clientToken, previous_state: state };
  operator.answer({ ...answer, waiting_reason: reason ?? null }, `${which} is ${how}.`);
}

async function cancel(operator: Operator, id: string) {
  const { clientToken, state, platformId } = await requireNotification(operator, id);
  if (!(await operator.change((db) => cancelNotification(db, clientToken, id)))) {
    const now = await requireNotification(operator, id);
    throw new Refused(`${id} no longer waits: it is ${now.state}.`);
  }
  const before = { client_token: clientToken, platform_id: platformId, state };
  await operator.record('notification cancel', id, before, { state: 'cancelled' });
  const answer = { notification_id: id, client_token: clientToken, state: 'cancelled' };
  operator.answer(answer, `${id} is cancelled.`);
}

async function recover(
  operator: Operator,
  token: ClientToken,
  { since, until = Date.now(), dryRun = false }: { since: number; until?: number; dryRun?: boolean },
) {
  await requireClient(operator, token);
  const { count } = await operator.change((db) => recoverFailed(db, token, { since, until, dryRun }));
  if (!dryRun) {
    const range = { since: moment(since), until: moment(until) };
    await operator.record('notification recover', token, range, { count });
    if (count > 0) await operator.wake(token);
  }
  const said = dryRun ? `${count} would be owed again.` : `${count} are owed again.`;
  operator.answer({ client_token: token, count, dry_run: dryRun }, said);
}

/** @throws Refused if there is no such notification */
async function requireNotification(operator: Operator, id: string): Promise<NotificationRecord> {
  const found = await findNotification(await operator.db(), id);
  if (found !== undefined) return found;
  throw new Refused(
    `There is no notification ${id}: records are kept for 14 days after their end. ` +
      "Search Temporal's UI for a workflow whose id ends with it, or ask for its asset: explain CLIENT PLATFORM_ID.",
  );
}
