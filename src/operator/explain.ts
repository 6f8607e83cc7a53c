/** How a notification stands, and why something was or was not sent. */
import type { Command } from 'commander';
import { presentNotification, presentWithAttempts } from '../api/endpoints/present.js';
import type { ClientToken } from '../ids.js';
import { notificationOfEvent } from '../redis/notifications/notificationPages.js';
import type { ListedNotification, NotificationRecord } from '../redis/notifications/notifications.js';
import { withoutWorkflow } from '../redis/owed/claim.js';
import { decisionInWords, explainAsset } from '../redis/owed/decisions.js';
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
): Promise<void> {
  if ((platformId === undefined) === (event === undefined)) command.error('Give <platform-id> or --event.');
  await requireClient(operator, token);
  if (event !== undefined) return await showResult(operator, token, event);
  const why = await explainAsset(await operator.db(), token, platformId ?? '');
  const { lastEvent, lastNotification: last } = why;
  const answer = {
    client_token: token,
    platform_id: platformId,
    known_segments: why.knownSegments,
    last_event: lastEvent
      ? { event_id: lastEvent.eventId, at: moment(lastEvent.at), decision: lastEvent.decision }
      : null,
    last_notification: last ? await present(operator, last) : null,
    catch_up_id: (await operator.workflowIds()).catchUp(token),
  };
  operator.answer(answer, () =>
    facts({
      client: token,
      asset: platformId,
      'known segments': why.knownSegments,
      'last event': lastEvent && `${lastEvent.eventId} at ${moment(lastEvent.at)}`,
      decision: decisionInWords(why),
      'last notification': last?.notificationId,
      state: last && stateInWords(last),
      reason: last?.reason,
      attempts: last?.attempts.length,
      'next attempt': last && describeNext(last),
      workflow: answer.last_notification && workflowInWords(answer.last_notification),
      'catch-up': answer.catch_up_id,
    }),
  );
}

async function showResult(operator: Operator, token: ClientToken, eventId: string): Promise<void> {
  const found = await notificationOfEvent(await operator.db(), token, eventId);
  if (found !== undefined) return await answerWith(operator, found);
  throw new Refused(
    `No kept notification of ${token} names the event ${eventId}. ` +
      `If the event made none, "explain ${token} PLATFORM_ID" says why.`,
  );
}

/** Answers with a notification and its attempts. */
export async function answerWith(operator: Operator, n: NotificationRecord): Promise<void> {
  const shown = await present(operator, n);
  operator.answer(shown, () => describe(n, shown));
}

function describe(n: NotificationRecord, shown: WorkflowOf): string {
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
    workflow: workflowInWords(shown),
  });
  const attempts = table(
    ['ATTEMPT AT', 'STATUS', 'MS', 'ERROR', 'ADDRESS', 'URL', 'ANSWER'],
    n.attempts.map((a) => [
      ...[moment(a.at), a.status, Math.round(a.milliseconds), a.error],
      ...[a.remote_address, a.url, a.response_excerpt?.slice(0, 60)],
    ]),
    'No attempts yet.',
  );
  return `${head}\n\n${attempts}`;
}

/** Presents a notification as the API does, alone or in a list, with its client and its workflow. */
export async function present(operator: Operator, n: NotificationRecord | ListedNotification) {
  const { notification_id, ...rest } = 'attempts' in n ? presentWithAttempts(n) : presentNotification(n);
  return { notification_id, client_token: n.clientToken, ...(await workflowOf(operator, n)), ...rest };
}

interface WorkflowOf {
  workflow_id: string | null;
  workflow_url?: string;
}

/** Returns where an operator finds it: a link if the address of Temporal's UI is known. */
async function workflowOf(
  operator: Operator,
  { clientToken, notificationId, group }: ListedNotification,
): Promise<WorkflowOf> {
  if (group === withoutWorkflow) return { workflow_id: null };
  const { TEMPORAL_NAMESPACE } = operator.config();
  const ids = await operator.workflowIds();
  const workflow_id = group === undefined ? ids.enrichment(clientToken, notificationId) : ids.group(group);
  const ui = operator.temporalUi();
  if (ui === undefined) return { workflow_id };
  const path = `/namespaces/${encodeURIComponent(TEMPORAL_NAMESPACE)}/workflows/${encodeURIComponent(workflow_id)}`;
  return { workflow_id, workflow_url: `${ui.replace(/\/$/, '')}${path}` };
}

function workflowInWords({ workflow_id, workflow_url }: WorkflowOf): string {
  return workflow_url ?? workflow_id ?? 'none: too many events were waiting for Temporal';
}

/** Says the state, and what the last attempt came to. */
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
export function describeNext({
  waitingReason,
  nextAttemptAt,
  clientToken,
}: ListedNotification): string | undefined {
  switch (waitingReason) {
    case undefined:
      return undefined;
    case 'due':
      return 'now';
    case 'rate':
    case 'full':
      return 'in its turn';
    case 'in_flight':
      return 'under way now';
    case 'retry':
      return fromNow(nextAttemptAt);
    case 'failing':
      return `probe ${fromNow(nextAttemptAt)}: the endpoint is failing`;
    case 'not_before':
      return `${fromNow(nextAttemptAt)}: the endpoint asked to wait (Retry-After)`;
    case 'paused':
      return 'not while its client is paused, or its account disabled';
    case 'suspended':
      return `not while it is suspended: registration resume ${clientToken}`;
    case 'no_registration':
      return 'once a URL is registered';
  }
}
