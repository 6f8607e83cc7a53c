/** Lists, shows, explains and cancels notifications. */
import { z } from 'zod';
import { shared } from '../constants.js';
import { ApiError, badParameter, refused } from '../http/apiError.js';
import { wordsOf } from '../http/errors.js';
import {
  askWhetherEmpty,
  givenTime,
  limitNumber,
  notACursor,
  platformIdText,
  text,
} from '../http/schemas.js';
import { eventIdPattern, isNotificationId } from '../ids.js';
import type { Db } from '../redis/connection/db.js';
import {
  forgetAsset as forgetRecord,
  isKnown,
  explainAsset as readAsset,
} from '../redis/notifications/decisions.js';
import { newestNotifications } from '../redis/notifications/newestNotifications.js';
import {
  completeSince,
  listNotifications as listRecords,
  type NotificationOrder,
  notificationOfEvent,
  type OnPiece,
  orderOf,
  type Position,
} from '../redis/notifications/notificationPages.js';
import type { ListedNotification, NotificationRecord } from '../redis/notifications/notifications.js';
import { cancelNotification as cancelRecord } from '../redis/notifications/redeliver.js';
import { notificationStates } from '../redis/owed/standing.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { type Actor, act, anyOrLook, orPlatformOrLook, support } from './act.js';
import { presentAsset, presentNotification, presentTime, presentWithAttempts } from './present.js';
import { type About, requireNotification, type Subject } from './subjects.js';

/**
 * The end of a page, as text. The first letter is the order: `a`, by acceptance, with the time (ms) and the notification;
 * `o`, by the time since which it is owed, and `f`, by the time of its failure, with that (ms) and the asset in base64url. The client ends it.
 * `readCursor` checks the content.
 */
export const notificationsCursor = text('a.1769860800000.msg_3q2-7wABAgMEBQYHCAkKCw.SITE0042').regex(
  /^[aof][.](0|[1-9][0-9]{0,15})[.][A-Za-z0-9_-]{1,1366}[.][A-Za-z0-9_:-]{1,128}$/,
  notACursor,
);

export const notificationsQuery = z.object({
  state: z.enum(notificationStates).describe('Only notifications in this state.').optional(),
  platform_id: platformIdText.describe('Only notifications of this asset.').optional(),
  since: givenTime('Accepted at this time or later.').optional(),
  until: givenTime('Accepted at this time or earlier.').optional(),
  cursor: notificationsCursor
    .describe('The next_cursor of the previous page, with the same state and platform_id.')
    .optional(),
  limit: limitNumber,
});

/** Which notifications a list has; `since` and `until`: accepted between these times, ms. */
export type Listed = z.output<typeof notificationsQuery>;

/** Lists the newest notifications of a client; an operator those of all clients, or of one. */
export const listNotifications = act(
  'notification list',
  anyOrLook,
  async (actor, { client, ...asked }: Listed & { client?: Subject | undefined }) => {
    const db = await actor.db();
    const isPage = client !== undefined && actor.by === 'publisher';
    const found = isPage
      ? await readPage(db, client, asked, actor.countPiece)
      : await readNewest(db, client, asked);
    const { notifications, cursor: next_cursor, since } = found;
    return {
      notifications: await Promise.all(notifications.map((n) => present(actor, n))),
      complete_since: presentTime(since),
      has_more: next_cursor !== undefined,
      next_cursor,
    };
  },
);

/** Returns a page, the cursor of the next one if more may follow, and since when the list is complete. @throws ApiError 400 for a wrong cursor */
export async function readPage(db: Db, { clientToken }: Subject, asked: Listed, onPiece?: OnPiece) {
  const { order, behind, ...filter } = filterOf(asked, clientToken);
  const { notifications, next } = await listRecords(db, clientToken, { ...filter, behind }, onPiece);
  const since = await completeSince(db, clientToken, order);
  return { notifications, cursor: next && writeCursor(order, next, clientToken), since };
}

/** In place of a client in a cursor. */
const everyClient = '*';

async function readNewest(db: Db, client: Subject | undefined, asked: Listed) {
  const owner = client?.clientToken ?? everyClient;
  const { order, behind, ...filter } = filterOf(asked, owner);
  const found = await newestNotifications(db, client?.clientToken, { ...filter, behind });
  const { notifications, next, since } = found;
  return { notifications, cursor: next && writeCursor(order, next, owner), since };
}

/** @throws ApiError 400 */
function filterOf({ platform_id: platformId, cursor: given, ...rest }: Listed, owner: string) {
  if ((rest.since ?? 0) > (rest.until ?? Number.POSITIVE_INFINITY))
    throw badParameter('since must not be later than until');
  const order = orderOf({ ...rest, platformId });
  const behind = given === undefined ? undefined : readCursor(order, given, owner);
  return { ...rest, platformId, order, behind };
}

const letters: Record<NotificationOrder, string> = { accepted: 'a', owed_since: 'o', failed_at: 'f' };

function writeCursor(order: NotificationOrder, { score, member }: Position, owner: string): string {
  const name = order === 'accepted' ? member : Buffer.from(member).toString('base64url');
  return `${letters[order]}.${score}.${name}.${owner}`;
}

/** @throws ApiError 400 for a cursor that this call has not answered, or that belongs to another order or client */
function readCursor(order: NotificationOrder, given: string, wanted: string): Position {
  const [, score = '', name = '', owner] = given.split('.');
  if (owner !== wanted) throw badParameter(`cursor is of the client ${owner}`);
  const member = order === 'accepted' ? name : Buffer.from(name, 'base64url').toString();
  const position = { score: Number(score), member };
  const isPlace = /^\d+$/.test(score) && (order !== 'accepted' || isNotificationId(member));
  if (!isPlace || writeCursor(order, position, wanted) !== given) throw badParameter(`cursor ${notACursor}`);
  return position;
}

type Shown = NotificationRecord | ListedNotification;

/** Presents a notification, alone or in a list; to an operator with its client and its workflow. */
export async function present(actor: Actor, n: Shown) {
  const { notification_id, ...rest } = 'attempts' in n ? presentWithAttempts(n) : presentNotification(n);
  const workflow = actor.by === 'operator' && (await workflowOf(actor, n));
  return { notification_id, client_token: n.clientToken, ...workflow, ...rest };
}

/** Loads what it needs only now: like Temporal's client. */
const idsOf = async (actor: Actor) =>
  (await import('../temporal/workflowIds.js')).workflowIds(actor.config().TASK_QUEUE);

/** Returns the workflow's id, and a link if the address of Temporal's UI is known. */
export async function workflowOf(
  actor: Actor,
  { clientToken, notificationId, group }: ListedNotification,
): Promise<{ workflow_id: string | null; workflow_url?: string }> {
  if (group === shared.withoutWorkflow) return { workflow_id: null };
  const ids = await idsOf(actor);
  const workflow_id = group === undefined ? ids.enrichment(clientToken, notificationId) : ids.group(group);
  const { TEMPORAL_UI_URL: ui, TEMPORAL_NAMESPACE } = actor.config();
  if (ui === undefined) return { workflow_id };
  const namespace = encodeURIComponent(TEMPORAL_NAMESPACE);
  const workflow_url = `${ui.replace(/\/$/, '')}/namespaces/${namespace}/workflows/${encodeURIComponent(workflow_id)}`;
  return { workflow_id, workflow_url };
}

export type One = About & { id: string };
type Asset = About & { platform_id: string };
type OneEvent = About & { event_id: string };

export const showNotification = act('notification show', anyOrLook, async (actor, { client, id }: One) => {
  const found = await requireNotification(await actor.db(), client, id);
  return { ...(await present(actor, found)), found };
});

/** Shows the newest kept notification that names an event. */
export const explainEvent = act('explain event', orPlatformOrLook, async (actor, given: OneEvent) => {
  const { client, event_id: eventId } = given;
  const isId = eventIdPattern.test(eventId);
  const find = async () =>
    notificationOfEvent(await actor.db(), client.clientToken, eventId, actor.countPiece);
  const found = isId ? await find() : undefined;
  if (found === undefined)
    throw new ApiError('unknown_event', wordsOf('unknown_event') + askWhetherEmpty(eventId));
  return { ...(await present(actor, found)), found };
});

export const explainAsset = act('explain', orPlatformOrLook, async (actor, given: Asset) => {
  const { client, platform_id: platformId } = given;
  const { clientToken } = client;
  const db = await actor.db();
  const why = await readAsset(db, clientToken, platformId);
  if (actor.by === 'publisher' && !isKnown(why)) throw await unknownAsset(db, clientToken, platformId);
  const last = why.lastNotification;
  const endpoint = actor.by === 'operator' ? await getEndpoint(db, clientToken) : undefined;
  const isOwed = endpoint !== undefined && endpoint.owed > 0;
  return {
    client_token: clientToken,
    ...presentAsset(why),
    last_notification: last && (await present(actor, last)),
    catch_up_id: isOwed ? (await idsOf(actor)).catchUp(clientToken) : null,
    why,
    held: endpoint?.held === true,
  };
});

async function unknownAsset(db: Db, clientToken: string, given: string): Promise<ApiError> {
  const hint = askWhetherEmpty(given) || (await sayNearest(db, clientToken, given));
  return new ApiError('unknown_asset', wordsOf('unknown_asset') + hint);
}

/** Names a known asset whose id looks like the one given: both are compared byte for byte. */
async function sayNearest(db: Db, clientToken: string, given: string): Promise<string> {
  const bare = given
    .replaceAll(/\p{Cf}/gu, '')
    .replaceAll(/\p{Zs}/gu, ' ')
    .trim();
  const normal = ['NFC', 'NFD'].map((form) => given.normalize(form));
  const alike = [bare, ...normal, `\ufeff${given}`, `${given} `, ` ${given}`];
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

export const cancelNotification = act('notification cancel', support, async (actor, one: One, admit) => {
  const { client, id } = one;
  const { clientToken } = client;
  const db = await actor.db();
  const { notificationId, state, platformId } = await requireNotification(db, client, id);
  const noLongerWaits = (now: string) => refused(`${notificationId} no longer waits: it is ${now}`);
  if (state !== 'waiting') throw noLongerWaits(state);
  const before = { client_token: clientToken, platform_id: platformId, state };
  const after = { state: 'cancelled' };
  await admit({ target: notificationId, before, after, cancels: 1 });
  if (!(await actor.change((own) => cancelRecord(own, clientToken, notificationId))))
    throw noLongerWaits((await requireNotification(db, client, id)).state);
  return { notification_id: notificationId, client_token: clientToken, ...after };
});

/** Forgets an asset: its next event is new. */
export const forgetAsset = act(
  'asset forget',
  { publisher: 'platform', operator: 'support' },
  async (actor, { client: { clientToken }, platform_id: platformId }: Asset, admit) => {
    const last = (await readAsset(await actor.db(), clientToken, platformId)).lastNotification;
    const cancels = last?.state === 'waiting' || last?.state === 'failed' ? 1 : 0;
    await admit({ after: { platform_id: platformId }, cancels });
    const found = await actor.change((db) => forgetRecord(db, clientToken, platformId));
    if (found.cancelled !== undefined) actor.countCancelled(1);
    const { knownSegments: known_segments, cancelled } = found;
    return { client_token: clientToken, platform_id: platformId, known_segments, cancelled };
  },
);
