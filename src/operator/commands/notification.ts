import { type Command, InvalidArgumentError, Option } from 'commander';
import { type ClientToken, isNotificationId } from '../../ids.js';
import { mapInPages } from '../../mapInPages.js';
import type { Db } from '../../redis/connection/db.js';
import { newestNotifications } from '../../redis/notifications/newestNotifications.js';
import { listNotifications } from '../../redis/notifications/notificationPages.js';
import {
  cancelNotification,
  findNotification,
  makeDue,
  type NotificationRecord,
  type NotificationState,
  notificationStates,
  recoverFailed,
} from '../../redis/notifications/notifications.js';
import type { Place } from '../../redis/notifications/place.js';
import { listClients } from '../../redis/records/clients.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { knownClient, parseClientToken } from '../knownClient.js';
import type { Operator } from '../operator.js';
import { presentNotification, workflowInWords, workflowOf } from '../presentNotification.js';
import { Refused } from '../refused.js';
import { fromNow, moment, parseMoment } from '../terminal/moment.js';
import { facts, table } from '../terminal/table.js';

interface ListOptions {
  client?: ClientToken;
  state?: NotificationState;
  since?: number;
  limit: number;
}

export function addNotificationCommands(program: Command, operator: Operator): void {
  const notification = program.command('notification').description('what was sent, is owed, or has failed');

  notification
    .command('list')
    .description('the newest notifications, of all clients or of one')
    .option('--client <token>', 'only of this client', parseClientToken)
    .addOption(new Option('--state <state>', 'only in this state').choices(notificationStates))
    .option('--since <when>', 'accepted since a date, or so long ago (15m, 2h, 3d)', parseMoment)
    .option('--limit <n>', 'at most so many', parseLimit, 50)
    .action(async (options: ListOptions) => {
      if (options.client !== undefined) await knownClient(operator, options.client);
      const found = await newest(operator, options);
      operator.answer(
        found.map((n) => presentNotification(operator, n)),
        () =>
          table(
            ['NOTIFICATION', 'CLIENT', 'ASSET', 'STATE', 'ACCEPTED', 'ATTEMPTS', 'NEXT'],
            found.map((n) => [
              n.notificationId,
              n.clientToken,
              n.platformId,
              n.state,
              moment(n.acceptedAt),
              n.attempts.length,
              nextInWords(n),
            ]),
            'There are no such notifications.',
          ),
      );
    });

  notification
    .command('show')
    .description('one notification and its attempts')
    .argument('<id>', 'the notification', parseNotificationId)
    .action(async (id: string) => {
      const found = await known(operator, id);
      operator.answer(presentNotification(operator, found), () => inWords(operator, found));
    });

  notification
    .command('redeliver')
    .description('send it again now, with the same id: a waiting one is due at once')
    .argument('<id>', 'the notification', parseNotificationId)
    .action(async (id: string) => {
      const { clientToken, platformId, state } = await known(operator, id);
      const db = await operator.db();
      if ((await getRegistration(db, clientToken)) === undefined) {
        throw new Refused(`${clientToken} has no URL to send it to.`);
      }
      const outcome = await makeDue(db, clientToken, id);
      switch (outcome) {
        case 'due':
          await operator.wake(clientToken);
          break;
        case 'ended': {
          const { startRedeliver } = await import('../../temporal/redeliver.js');
          const input = { clientToken, platformId, notificationId: id };
          await startRedeliver(await operator.temporal(), input, operator.config().TASK_QUEUE);
          break;
        }
        case 'unknown':
          throw unknown(id);
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
    });

  notification
    .command('cancel')
    .description('give up a waiting notification')
    .argument('<id>', 'the notification', parseNotificationId)
    .action(async (id: string) => {
      const { clientToken, state, platformId } = await known(operator, id);
      if (!(await cancelNotification(await operator.db(), clientToken, id))) {
        throw new Refused(`${id} does not wait any more: it is ${(await known(operator, id)).state}.`);
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

  notification
    .command('recover')
    .description('owe again what ended failed and was followed by nothing newer of its asset')
    .argument('<token>', 'the client', parseClientToken)
    .requiredOption('--since <when>', 'failed since a date, or so long ago (15m, 2h, 3d)', parseMoment)
    .option('--until <when>', 'and until (default: now)', parseMoment)
    .option('--dry-run', 'only count')
    .action(async (token: ClientToken, options: { since: number; until?: number; dryRun?: boolean }) => {
      await knownClient(operator, token);
      const dryRun = options.dryRun ?? false;
      const { since, until = Date.now() } = options;
      const { count } = await recoverFailed(await operator.db(), token, { since, until, dryRun });
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
    });
}

async function newest(operator: Operator, options: ListOptions): Promise<NotificationRecord[]> {
  const db = await operator.db();
  if (options.client !== undefined) return await newestOfClient(db, options.client, options);
  const clientTokens = (await listClients(db)).map((client) => client.clientToken);
  if (options.state === undefined || options.state === 'waiting') {
    return await newestNotifications(db, clientTokens, {
      ...options,
      waitingOnly: options.state === 'waiting',
    });
  }
  const found = await mapInPages(clientTokens, atOnce, (token) => newestOfClient(db, token, options));
  return found
    .flat()
    .sort((a, b) => b.acceptedAt - a.acceptedAt)
    .slice(0, options.limit);
}

/** Clients asked about at the same time. */
const atOnce = 50;

async function newestOfClient(
  db: Db,
  clientToken: ClientToken,
  { state, since, limit }: ListOptions,
): Promise<NotificationRecord[]> {
  const found: NotificationRecord[] = [];
  let behind: Place | undefined;
  do {
    const page = await listNotifications(db, clientToken, {
      limit: limit - found.length,
      ...(state !== undefined && { state }),
      ...(since !== undefined && { since }),
      ...(behind !== undefined && { behind }),
    });
    found.push(...page.notifications);
    behind = page.next;
  } while (behind !== undefined && found.length < limit);
  return found;
}

async function known(operator: Operator, id: string): Promise<NotificationRecord> {
  const found = await findNotification(await operator.db(), id);
  if (found === undefined) throw unknown(id);
  return found;
}

function unknown(id: string): Refused {
  return new Refused(`There is no notification ${id}; records are kept for 14 days after their end.`);
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

/** When, and what it waits for where that is not its own time. */
function nextInWords({ waitingReason, nextAttemptAt }: NotificationRecord): string | undefined {
  switch (waitingReason) {
    case undefined:
      return undefined;
    case 'due':
      return 'now';
    case 'in_flight':
      return 'under way now';
    case 'retry':
      return fromNow(nextAttemptAt);
    case 'failing':
      return `probe ${fromNow(nextAttemptAt)}: the endpoint is failing`;
    case 'not_before':
      return `${fromNow(nextAttemptAt)}: the endpoint asked for it (Retry-After)`;
    case 'paused':
    case 'suspended':
      return `not while it is ${waitingReason}`;
    case 'no_registration':
      return 'not before a URL is registered';
  }
}

function parseNotificationId(text: string): string {
  if (!isNotificationId(text))
    throw new InvalidArgumentError('A notification id looks like msg_ and 22 more.');
  return text;
}

function parseLimit(text: string): number {
  const limit = Number(text);
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > 10_000) {
    throw new InvalidArgumentError('Give a whole number from 1 to 10000.');
  }
  return limit;
}
