import { z } from 'zod';
import {
  explainAsset,
  explainEvent,
  listNotifications,
  notificationsCursor,
  notificationsQuery,
  showNotification,
} from '../../acts/notifications.js';
import { ApiError } from '../../http/apiError.js';
import { wordsOf } from '../../http/errors.js';
import {
  askWhetherEmpty,
  completeSince,
  eventIdText,
  givenNotificationId,
  integer,
  notification,
  notificationWithAttempts,
  oneOfMany,
  pageMembers,
  platformIdText,
  text,
  time,
} from '../../http/schemas.js';
import type { Db } from '../../redis/connection/db.js';
import { decisions, isKnown, explainAsset as readAsset } from '../../redis/notifications/decisions.js';
import { actorOf } from '../actor.js';
import { type ClientRequest, clientCall, inPathToo } from '../call.js';
import type { ApiDeps } from '../deps.js';

export const listNotificationsCall = clientCall({
  route: 'GET /notifications',
  summary: 'List notifications',
  description:
    'Lists a client’s notifications page by page, newest first by acceptance; with `state=waiting` and no `platform_id` by the time since which the asset is owed, with `state=failed` by the time of the failure. All waiting and failed ones are listed; of the others the newest 10,000, for 14 days after their end.',
  query: notificationsQuery,
  result: {
    what: 'One page, which may be short or empty although more follow.',
    schema: z.object({
      notifications: z.array(notification),
      complete_since: completeSince,
      ...pageMembers(notificationsCursor),
    }),
  },
  rate: 'records',
  isLong: true,
  act: listNotifications,
  input: ({ client, query }) => ({ client, ...query }),
});

export const getNotificationCall = clientCall({
  route: 'GET /notifications/{id}',
  summary: 'Show a notification and its attempts',
  inPath: z.object({ id: givenNotificationId.describe('The notification.') }),
  result: { what: 'The notification.', schema: notificationWithAttempts },
  codes: ['unknown_notification'],
  act: showNotification,
  input: ({ client, ctx }) => ({ client, id: ctx.params.id }),
});

export const explainEventCall = clientCall({
  route: 'GET /events/{event_id}',
  summary: 'Show the result of an event',
  description:
    'Shows the newest kept notification that names the event. An event that made none is found by its asset only.',
  inPath: z.object({ event_id: eventIdText.describe('The event.') }),
  result: { what: 'The notification.', schema: notification },
  codes: ['unknown_event'],
  rate: 'records',
  isLong: true,
  act: explainEvent,
  input: ({ client, ctx }) => ({ client, eventId: ctx.params.event_id ?? '' }),
});

const asset = z.object({ platform_id: platformIdText.describe('The asset.') });
const assetShown = {
  summary: 'Explain what was sent about an asset',
  act: explainAsset,
  result: {
    what: 'The record of the asset.',
    schema: z.object({
      platform_id: platformIdText,
      known_segments: integer(2),
      last_event: z
        .object({ event_id: text('an-7731'), at: time(), decision: oneOfMany(decisions) })
        .optional(),
      last_notification: notification.optional(),
    }),
  },
  codes: ['unknown_asset'],
} as const;

export const explainAssetCall = clientCall({
  ...assetShown,
  route: 'GET /assets',
  description:
    'Says why something was or was not sent: the last event, the decision about it, the last notification.',
  query: asset,
  codes: ['unknown_asset'],
  answer: (deps, request) => showAsset(deps, request, request.query.platform_id),
});

export const explainAssetInPathCall = clientCall({
  ...assetShown,
  route: 'GET /assets/{platform_id}',
  description: inPathToo('GET /assets'),
  inPath: asset,
  codes: ['unknown_asset'],
  answer: (deps, request) => showAsset(deps, request, request.ctx.params.platform_id ?? ''),
});

async function showAsset(deps: ApiDeps, request: ClientRequest, platformId: string) {
  const { client } = request;
  const found = await explainAsset(actorOf(deps, request), { client, platformId });
  if (isKnown(found.why)) return found;
  const hint = askWhetherEmpty(platformId) || (await sayNearest(deps.db, client.clientToken, platformId));
  throw new ApiError('unknown_asset', wordsOf('unknown_asset') + hint);
}

/** Names a known asset whose id looks like the one given: both are compared byte for byte. */
async function sayNearest(db: Db, clientToken: string, given: string): Promise<string> {
  const bare = given
    .replaceAll(/\p{Cf}/gu, '')
    .replaceAll(/\p{Zs}/gu, ' ')
    .trim();
  const alike = [
    bare,
    given.normalize('NFC'),
    given.normalize('NFD'),
    `\ufeff${given}`,
    `${given} `,
    ` ${given}`,
  ];
  for (const one of new Set(alike)) {
    if (one === given || one === '' || !isKnown(await readAsset(db, clientToken, one))) continue;
    const shown = JSON.stringify(one).replaceAll(
      /[^ -~]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
    return ` Ids are compared byte for byte: ${shown} is known, and differs in blanks, marks or its normal form.`;
  }
  return '';
}
