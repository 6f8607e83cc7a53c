import { deliveryOf } from '../../delivery/settings.js';
import type { ClientToken } from '../../ids.js';
import { problems } from '../../upkeep/problem.js';
import type { Reconciliation } from '../../upkeep/reconcile.js';
import type { Operator } from '../operator.js';
import { createPace } from '../pace.js';
import { Refused } from '../refused.js';
import { requireClient } from '../requireClient.js';
import { amount } from '../terminal/amount.js';
import { span } from '../terminal/moment.js';
import { counted, withProgress } from '../terminal/progress.js';
import { facts, table } from '../terminal/table.js';

export async function reconcileEvents(
  operator: Operator,
  options: { since?: number; client?: ClientToken; perSecond: number },
): Promise<void> {
  if (options.client !== undefined) await requireClient(operator, options.client);
  const { nothingYet, reconcile } = await import('../../upkeep/reconcile.js');
  const looked = nothingYet();
  const walk = {
    db: await operator.db(),
    temporal: await operator.temporal(),
    taskQueue: operator.config().TASK_QUEUE,
    settings: deliveryOf(operator.config()),
    since: options.since ?? 0,
    ...(options.client !== undefined && { clientToken: options.client }),
    pace: createPace(options.perSecond),
  };
  const found = await withProgress(
    () => `Reading: ${counted(looked.notifications)} notifications, ${counted(looked.workflows)} workflows`,
    () => reconcile(walk, looked),
  );
  operator.answer(present(found), () => describe(found));
  if (found.unaccountedInAll > 0) throw new Refused(`Unaccounted for: ${found.unaccountedInAll}.`);
}

function present({ counts, unaccounted, unaccountedInAll, looked, milliseconds }: Reconciliation) {
  return {
    events: { ...counts, unaccounted: unaccountedInAll },
    looked_at: looked,
    seconds: milliseconds / 1000,
    unaccounted: unaccounted.map((u) => ({
      client_token: u.clientToken,
      platform_id: u.platformId ?? null,
      notification_id: u.notificationId ?? null,
      workflow_id: u.workflowId ?? null,
      problem: u.problem,
      because: problems[u.problem],
    })),
  };
}

function describe({ counts, unaccounted, unaccountedInAll, looked, milliseconds }: Reconciliation): string {
  const accounted = Object.values(counts).reduce((sum, n) => sum + n, 0);
  return [
    unaccountedInAll === 0
      ? `Every accepted event is accounted for: ${accounted}.`
      : `Unaccounted for: ${unaccountedInAll}; accounted for: ${accounted}.`,
    '',
    facts(Object.fromEntries(Object.entries(counts).map(([name, n]) => [name.replaceAll('_', ' '), n]))),
    '',
    `Read ${amount(looked.notifications, 'notification')} of ${amount(looked.clients, 'client')} and ${amount(looked.workflows, 'workflow')} (${looked.histories} by their history) in ${span(milliseconds)}.`,
    '',
    table(
      ['CLIENT', 'ASSET', 'NOTIFICATION', 'WORKFLOW', 'BECAUSE'],
      unaccounted.map((u) => [
        u.clientToken,
        u.platformId,
        u.notificationId,
        u.workflowId,
        problems[u.problem],
      ]),
      'Nothing is unaccounted for.',
    ),
  ].join('\n');
}
