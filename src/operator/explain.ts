/** Explains how a notification stands, and why something was or was not sent. */
import { z } from 'zod';
import { explainAsset, explainEvent, forgetAsset } from '../acts/notifications.js';
import { ApiError } from '../http/apiError.js';
import {
  integer,
  notification,
  notificationWithAttempts,
  platformIdText,
  text,
  time,
} from '../http/schemas.js';
import { decisionInWords } from '../redis/notifications/decisions.js';
import type { NotificationRecord } from '../redis/notifications/notifications.js';
import type { Client } from '../redis/records/clients.js';
import { stateSentence } from '../web/words.js';
import { anyClient, filledText } from './input.js';
import { type Answer, actOperation, answer, type Operator, operation, Refused } from './operation.js';
import { requireClient } from './subjects.js';
import { shownOf } from './terminal.js';

const found = {
  client_token: anyClient,
  workflow_id: text('enrichment/SITE0042/msg_3q2-7wABAgMEBQYHCAkKCw').nullable(),
  workflow_url: text('http://127.0.0.1:8233/…').optional(),
};
/** What an operator gets of a notification: what its publisher gets, its client and its workflow. */
export const listedAnswer = z.object({ ...found, ...notification.shape });
export const shownAnswer = z.object({ ...found, ...notificationWithAttempts.shape });

export const explain = operation({
  command: 'explain <token> [platform-id]',
  does: 'say why something was or was not sent for an asset, or for an event',
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
  // Of an asset, or of an event: its notification.
  answers: z
    .object({
      ...shownAnswer.shape,
      known_segments: integer(12),
      last_event: z.object({ event_id: text('an-7731'), at: time(), decision: text('queued') }).nullable(),
      last_notification: shownAnswer.nullable(),
      catch_up_id: text('catch-up/SITE0042').nullable(),
    })
    .partial(),
  acts: [explainAsset, explainEvent],
  async run(operator, { client_token, platform_id = '', event }): Promise<Answer> {
    const client = await requireClient(operator, client_token);
    if (event !== undefined) return await ofEvent(operator, client, event);
    const { why, held, ...found } = await explainAsset(operator, { client, platform_id });
    const { last_event = null, last_notification = null } = found;
    const value = { ...found, last_event, last_notification };
    const last = why.lastNotification;
    const stands =
      last && last.state !== 'delivered'
        ? ` Its last notification is ${stateOf(last)}${held ? ' Its account is disabled or paused.' : ''}`
        : '';
    return answer(value, `The last event: ${decisionInWords(why)}.${stands}`, ...shownOf(value));
  },
});

export const assetForget = actOperation({
  act: forgetAsset,
  command: 'asset forget <token> <platform-id>',
  button: 'Forget video',
  group: 'Delete',
  does: 'forget an asset that was removed: its segments, its decision, and what is owed or failed; its next event is new',
  input: z.object({ client_token: anyClient, platform_id: platformIdText }),
  answers: z.object({
    client_token: anyClient,
    platform_id: platformIdText,
    known_segments: integer(12),
    cancelled: text('msg_3q2-7wABAgMEBQYHCAkKCw').optional(),
  }),
});

async function ofEvent(operator: Operator, client: Client, eventId: string): Promise<Answer> {
  const { found, ...value } = await explainEvent(operator, { client, event_id: eventId }).catch(
    (err: unknown) => {
      if (!(err instanceof ApiError) || err.code !== 'unknown_event') throw err;
      throw new Refused(
        `No kept notification of ${client.clientToken} names the event ${eventId}. ` +
          `If the event made none, "explain ${client.clientToken} PLATFORM_ID" says why.`,
        'unknown_event',
      );
    },
  );
  return answer(value, standing(found), ...shownOf(value));
}

export const standing = (n: NotificationRecord): string => `It is ${stateOf(n)}`;

function stateOf(n: NotificationRecord): string {
  const why = stateSentence(n);
  return `${n.state}${why && `: ${why}`}.`;
}
