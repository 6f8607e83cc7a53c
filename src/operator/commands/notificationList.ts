import type { ClientToken } from '../../ids.js';
import { mapInPages } from '../../mapInPages.js';
import type { Db } from '../../redis/connection/db.js';
import { newestNotifications } from '../../redis/notifications/newestNotifications.js';
import { listNotifications } from '../../redis/notifications/notificationPages.js';
import type { NotificationState } from '../../redis/notifications/notificationStates.js';
import type { ListedNotification } from '../../redis/notifications/notifications.js';
import type { Place } from '../../redis/notifications/place.js';
import { listClients } from '../../redis/records/clients.js';
import { type Operator, requireClient } from '../operator.js';
import { describeNext, presentToOperator } from '../presentToOperator.js';
import { table } from '../terminal/table.js';
import { moment } from '../terminal/words.js';

interface ListOptions {
  client?: ClientToken;
  state?: NotificationState;
  since?: number;
  limit: number;
}

/** Clients whose notifications are read at the same time. */
const concurrency = 50;

export async function notificationList(operator: Operator, options: ListOptions): Promise<void> {
  if (options.client !== undefined) await requireClient(operator, options.client);
  const found = await findNewest(operator, options);
  operator.answer(
    found.map((n) => presentToOperator(operator, n)),
    () => describe(found),
  );
}

async function findNewest(operator: Operator, options: ListOptions): Promise<ListedNotification[]> {
  const db = await operator.db();
  if (options.client !== undefined) return await findNewestOfClient(db, options.client, options);
  const clientTokens = (await listClients(db)).map((client) => client.clientToken);
  if (options.state === undefined || options.state === 'waiting') {
    return await newestNotifications(db, clientTokens, {
      ...options,
      waitingOnly: options.state === 'waiting',
    });
  }
  const found = await mapInPages(clientTokens, concurrency, (token) =>
    findNewestOfClient(db, token, options),
  );
  return found
    .flat()
    .sort((a, b) => b.acceptedAt - a.acceptedAt)
    .slice(0, options.limit);
}

async function findNewestOfClient(
  db: Db,
  clientToken: ClientToken,
  { state, since, limit }: ListOptions,
): Promise<ListedNotification[]> {
  const found: ListedNotification[] = [];
  let behind: Place | undefined;
  do {
    const page = await listNotifications(db, clientToken, {
      limit: limit - found.length,
      state,
      since,
      behind,
    });
    found.push(...page.notifications);
    behind = page.next;
  } while (behind !== undefined && found.length < limit);
  return found;
}

function describe(found: readonly ListedNotification[]): string {
  return table(
    ['NOTIFICATION', 'CLIENT', 'ASSET', 'STATE', 'ACCEPTED', 'NEXT'],
    found.map((n) => {
      const { notificationId, clientToken, platformId, state } = n;
      return [notificationId, clientToken, platformId, state, moment(n.acceptedAt), describeNext(n)];
    }),
    'No notifications match.',
  );
}
