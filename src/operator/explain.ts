/** Explains how a notification stands, and why something was or was not sent. */
import { z } from 'zod';
import { presentAsset, presentNotification, presentWithAttempts } from '../acts/present.js';
import {
  integer,
  notification,
  notificationWithAttempts,
  platformIdText,
  text,
  time,
} from '../http/schemas.js';
import { decisionInWords, explainAsset } from '../redis/notifications/decisions.js';
import { notificationOfEvent } from '../redis/notifications/notificationPages.js';
import type { ListedNotification, NotificationRecord } from '../redis/notifications/notifications.js';
import { withoutWorkflow } from '../redis/owed/claim.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { stateSentence } from '../web/words.js';
import { anyClient, filledText } from './input.js';
import { type Answer, answer, type Operator, operation, Refused, requireClient } from './operation.js';
import { shownOf } from './terminal.js';

const found = {
  client_token: anyClient,
  workflow_id: text('notifications/enrichment/SITE0042/msg_3q2-7wABAgMEBQYHCAkKCw').nullable(),
  workflow_url: text('http://127.0.0.1:8233/…').optional(),
};
/** What an operator gets of a notification: what its publisher gets, its client and its workflow. */
export const listedAnswer = z.object({ ...found, ...notification.shape });
export const shownAnswer = z.object({ ...found, ...notificationWithAttempts.shape });

export const explain = operation({
  command: 'explain <token> [platform-id]',
  does: 'say why something was or was not sent for an asset, or for an event',
  role: 'look',
  input: z
    .object({
      client_token: anyClient,
      platform_id: platformIdText.optional(),
      event: filledText.optional().describe('id of an event, to say what came of it'),
    })
    .refine(
      ({ platform_id, event }) => (platform_id === undefined) !== (event === undefined),
      'Give <platform-id> or --event.',
    ),
  answers: z.union([
    z.object({
      client_token: anyClient,
      platform_id: platformIdText,
      known_segments: integer(12),
      last_event: z.object({ event_id: text('an-7731'), at: time(), decision: text('queued') }).nullable(),
      last_notification: shownAnswer.nullable(),
      catch_up_id: text('notifications/catch-up/SITE0042').nullable(),
    }),
    shownAnswer,
  ]),
  async run(operator, { client_token, platform_id = '', event }): Promise<Answer> {
    await requireClient(operator, client_token);
    const db = await operator.db();
    if (event !== undefined) {
      const found = await notificationOfEvent(db, client_token, event);
      if (found !== undefined) return await answerWith(operator, found);
      throw new Refused(
        `No kept notification of ${client_token} names the event ${event}. ` +
          `If the event made none, "explain ${client_token} PLATFORM_ID" says why.`,
        'unknown_event',
      );
    }
    const why = await explainAsset(db, client_token, platform_id);
    const { lastNotification: last } = why;
    const { owed, held } = await getEndpoint(db, client_token);
    const { last_event = null, ...asset } = presentAsset(why);
    const value = {
      client_token,
      ...asset,
      last_event,
      last_notification: last ? await present(operator, last) : null,
      catch_up_id: owed > 0 ? (await idsOf(operator)).catchUp(client_token) : null,
    };
    const isOpen = last && last.state !== 'delivered';
    const stands = isOpen
      ? ` Its last notification is ${standing(last)}${held ? ' Its account is disabled.' : ''}`
      : '';
    return answer(value, `The last event: ${decisionInWords(why)}.${stands}`, ...shownOf(value));
  },
});

export async function answerWith(operator: Operator, n: NotificationRecord): Promise<Answer> {
  const value = await present(operator, n);
  return answer(value, `It is ${standing(n)}`, ...shownOf(value));
}

function standing(n: NotificationRecord): string {
  const why = stateSentence(n);
  return `${n.state}${why && `: ${why}`}.`;
}

/** Presents a notification as the API does, alone or in a list, with its client and its workflow. */
export async function present(operator: Operator, n: NotificationRecord | ListedNotification) {
  const { notification_id, ...rest } = 'attempts' in n ? presentWithAttempts(n) : presentNotification(n);
  return { notification_id, client_token: n.clientToken, ...(await presentWorkflow(operator, n)), ...rest };
}

/** Loads what it needs only now: like Temporal's client. */
const idsOf = async ({ config }: Operator) =>
  (await import('../temporal/workflowIds.js')).workflowIds(config().TASK_QUEUE);

/** Returns the workflow's id, and a link if the address of Temporal's UI is known. */
export async function presentWorkflow(
  operator: Operator,
  { clientToken, notificationId, group }: ListedNotification,
): Promise<{ workflow_id: string | null; workflow_url?: string }> {
  if (group === withoutWorkflow) return { workflow_id: null };
  const ids = await idsOf(operator);
  const workflow_id = group === undefined ? ids.enrichment(clientToken, notificationId) : ids.group(group);
  const { TEMPORAL_UI_URL: ui, TEMPORAL_NAMESPACE } = operator.config();
  if (ui === undefined) return { workflow_id };
  const namespace = encodeURIComponent(TEMPORAL_NAMESPACE);
  const workflow_url = `${ui.replace(/\/$/, '')}/namespaces/${namespace}/workflows/${encodeURIComponent(workflow_id)}`;
  return { workflow_id, workflow_url };
}
