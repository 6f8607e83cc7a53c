/** Explains how a notification stands, and why something was or was not sent. */
import type { Command } from 'commander';
import { presentNotification, presentWithAttempts } from '../api/endpoints/present.js';
import type { ClientToken } from '../ids.js';
import { decisionInWords, explainAsset } from '../redis/notifications/decisions.js';
import { notificationOfEvent } from '../redis/notifications/notificationPages.js';
import type { ListedNotification, NotificationRecord } from '../redis/notifications/notifications.js';
import { withoutWorkflow } from '../redis/owed/claim.js';
import type { WaitReason } from '../redis/owed/standing.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { type AddCommand, type Operator, Refused, requireClient } from './session.js';
import { facts, fromNow, moment, table } from './terminal.js';

export function addExplainCommand(add: AddCommand): void {
  const does = 'say why something was or was not sent for an asset, or for an event';
  add('explain <token> [platform-id]', does, explain).option('--event <id>', 'what came of this event');
}

async function explain(
  operator: Operator,
  token: ClientToken,
  platformId: string | undefined,
  { event }: { event?: string },
  command: Command,
) {
  if ((platformId === undefined) === (event === undefined)) command.error('Give <platform-id> or --event.');
  await requireClient(operator, token);
  const db = await operator.db();
  if (event !== undefined) {
    const found = await notificationOfEvent(db, token, event);
    if (found !== undefined) return await answerWith(operator, found);
    throw new Refused(
      `No kept notification of ${token} names the event ${event}. ` +
        `If the event made none, "explain ${token} PLATFORM_ID" says why.`,
    );
  }
  const why = await explainAsset(db, token, platformId ?? '');
  const { lastEvent } = why;
  const last = why.lastNotification && (await describe(operator, why.lastNotification));
  const { owed } = await getEndpoint(db, token);
  const catchUp = (await operator.workflowIds()).catchUp(token);
  operator.answer(
    {
      client_token: token,
      platform_id: platformId,
      known_segments: why.knownSegments,
      last_event: lastEvent
        ? { event_id: lastEvent.eventId, at: moment(lastEvent.at), decision: lastEvent.decision }
        : null,
      last_notification: last?.value ?? null,
      catch_up_id: owed > 0 ? catchUp : null,
    },
    `${facts({
      client: token,
      asset: platformId,
      'known segments': why.knownSegments,
      'last event': lastEvent && `${lastEvent.eventId} at ${moment(lastEvent.at)}`,
      decision: decisionInWords(why),
      'catch-up': owed > 0 ? catchUp : 'none: its client is owed nothing',
    })}${last ? `\n\nThe last notification:\n${last.text}` : ''}`,
  );
}

/** Answers with a notification and its attempts. */
export async function answerWith(operator: Operator, n: NotificationRecord) {
  const { value, text } = await describe(operator, n);
  operator.answer(value, text);
}

async function describe(operator: Operator, n: NotificationRecord) {
  const value = await present(operator, n);
  const head = facts({
    notification: n.notificationId,
    client: n.clientToken,
    asset: n.platformId,
    event: n.eventId,
    state: stateInWords(n),
    reason: n.reason,
    priority: n.priority,
    accepted: moment(n.acceptedAt),
    ended: moment(n.endedAt),
    'next attempt': describeNext(n),
    workflow: value.workflow_url ?? value.workflow_id ?? 'none: too many events were waiting for Temporal',
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
  return { value, text: `${head}\n\n${attempts}` };
}

/** Presents a notification as the API does, alone or in a list, with its client and its workflow. */
export async function present(operator: Operator, n: NotificationRecord | ListedNotification) {
  const { notification_id, ...rest } = 'attempts' in n ? presentWithAttempts(n) : presentNotification(n);
  return { notification_id, client_token: n.clientToken, ...(await presentWorkflow(operator, n)), ...rest };
}

/** Returns the workflow's id, and a link if the address of Temporal's UI is known. */
async function presentWorkflow(
  operator: Operator,
  { clientToken, notificationId, group }: ListedNotification,
): Promise<{ workflow_id: string | null; workflow_url?: string }> {
  if (group === withoutWorkflow) return { workflow_id: null };
  const ids = await operator.workflowIds();
  const workflow_id = group === undefined ? ids.enrichment(clientToken, notificationId) : ids.group(group);
  const ui = operator.temporalUi()?.replace(/\/$/, '');
  if (ui === undefined) return { workflow_id };
  const namespace = encodeURIComponent(operator.config().TEMPORAL_NAMESPACE);
  const workflow_url = `${ui}/namespaces/${namespace}/workflows/${encodeURIComponent(workflow_id)}`;
  return { workflow_id, workflow_url };
}

/** Describes the state and the result of the last attempt. */
function stateInWords({ state, by, endedAt, attempts }: NotificationRecord): string {
  const last = attempts.at(-1);
  if (by !== undefined) return `${state} (by ${by})`;
  if (last === undefined) return state;
  const atMs = (state === 'delivered' && endedAt) || last.at;
  const when = `at ${moment(atMs)}, ${fromNow(atMs)}`;
  if (state === 'delivered') return `delivered: answered ${last.status} ${when}`;
  return `${state}; the last attempt failed ${when}: ${last.status ?? last.error}`;
}

/** Describes when the next attempt is made, and the reason if another rule than the retry delay decides it. */
export function describeNext(n: ListedNotification): string | undefined {
  const at = fromNow(n.nextAttemptAt);
  const words: Record<WaitReason, string> = {
    due: 'now',
    rate: 'in its turn',
    full: 'in its turn',
    in_flight: 'under way now',
    retry: at,
    failing: `probe ${at}: the endpoint is failing`,
    not_before: `${at}: the endpoint asked to wait (Retry-After)`,
    paused: 'not while its client is paused, or its account disabled',
    suspended: `not while it is suspended: registration resume ${n.clientToken}`,
    no_registration: 'once a URL is registered',
  };
  return n.waitingReason && words[n.waitingReason];
}
