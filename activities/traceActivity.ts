import { Context } from '@temporalio/activity';
import { isRetriedShortly, type Outcome } from '../src/delivery/outcome.js';
import { keepTrace } from '../src/redis/notifications/traces.js';
import type { ClaimedEvent } from '../src/redis/owed/claim.js';
import { spanFor } from '../src/tracing.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';

/**
 * Traces an attempt of an activity of `enrichment`: in its event's trace, or, for several events, in a new trace with a link to
 * each. Keeps the traces of events that are handed over to catch-up. Without tracing it only does the work.
 */
export async function traceActivity(
  { tracing, db, log }: ActivityDeps,
  events: readonly ClaimedEvent[],
  work: () => Promise<Outcome[]>,
): Promise<Outcome[]> {
  if (tracing === undefined || events.every(({ trace }) => trace === undefined)) return await work();
  const { activityType, attempt, workflowExecution } = Context.current().info;
  const span = tracing.begin(`RunActivity:${activityType}`, {
    ...spanFor(events.map(({ trace }) => trace)),
    attributes: {
      temporalWorkflowId: workflowExecution?.workflowId ?? '',
      'asset_update.events': events.length,
      'asset_update.activity_attempt': attempt,
    },
  });
  try {
    const outcomes = await work();
    const left = events.filter((_, i) => {
      const outcome = outcomes[i];
      return outcome?.state === 'waiting' && !isRetriedShortly(outcome);
    });
    const delivered = outcomes.filter(({ state }) => state === 'delivered').length;
    span.end({ 'asset_update.delivered': delivered, 'asset_update.left_to_catch_up': left.length });
    // Only the links of later attempts depend on this.
    const kept = left.map(({ clientToken, notificationId, trace }) =>
      trace === undefined ? undefined : keepTrace(db, clientToken, notificationId, trace),
    );
    await Promise.all(kept).catch((err: unknown) => log.debug({ err }, 'traces could not be kept'));
    return outcomes;
  } catch (err) {
    span.end({}, err instanceof Error ? err.name : 'error');
    throw err;
  }
}
