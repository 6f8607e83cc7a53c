import { presentNotification, presentWithAttempts } from '../api/endpoints/present.js';
import type { ListedNotification, NotificationRecord } from '../redis/notifications/notifications.js';
import { withoutWorkflow } from '../redis/owed/claim.js';
import { workflowIds } from '../temporal/workflowIds.js';
import type { Operator } from './operator.js';
import { fromNow } from './terminal/words.js';

/** Presents a notification as the API does, alone or in a list, with its client and its workflow. */
export function presentToOperator(operator: Operator, n: NotificationRecord | ListedNotification) {
  const { notification_id, ...rest } = 'attempts' in n ? presentWithAttempts(n) : presentNotification(n);
  return { notification_id, client_token: n.clientToken, ...workflowOf(operator, n), ...rest };
}

/** Returns where an operator finds it: a link if the address of Temporal's UI is known. */
export function workflowOf(
  operator: Operator,
  { clientToken, notificationId, group }: ListedNotification,
): { workflow_id: string | null; workflow_url?: string } {
  if (group === withoutWorkflow) return { workflow_id: null };
  const { TASK_QUEUE, TEMPORAL_NAMESPACE } = operator.config();
  const ids = workflowIds(TASK_QUEUE);
  const workflow_id = group === undefined ? ids.enrichment(clientToken, notificationId) : ids.group(group);
  const ui = operator.temporalUi();
  if (ui === undefined) return { workflow_id };
  const path = `/namespaces/${encodeURIComponent(TEMPORAL_NAMESPACE)}/workflows/${encodeURIComponent(workflow_id)}`;
  return { workflow_id, workflow_url: `${ui.replace(/\/$/, '')}${path}` };
}

export function workflowInWords({ workflow_id, workflow_url }: ReturnType<typeof workflowOf>): string {
  if (workflow_id === null) return 'none: too many events were waiting for Temporal';
  return workflow_url ?? workflow_id;
}

/** Describes when the next attempt is made, and the reason if another rule than the retry delay decides it. */
export function describeNext({ waitingReason, nextAttemptAt }: ListedNotification): string | undefined {
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
    case 'suspended':
      return `not while it is ${waitingReason}`;
    case 'no_registration':
      return 'once a URL is registered';
  }
}
