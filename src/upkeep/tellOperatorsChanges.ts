import { changesSince, tellUntil, toldUntil, writtenAtMs } from '../redis/records/audit.js';
import { listStateChanges } from '../redis/records/endpoint.js';
import { tellStateChange } from '../tellStateChange.js';
import { noteBroken, type SweepDeps } from './brokenClients.js';

/**
 * Logs operators' changes since its last run, and counts the states that registrations entered
 * and the notifications that were cancelled. The commands run in processes whose log and counters are not kept.
 */
export async function tellOperatorsChanges(deps: SweepDeps): Promise<void> {
  const { db, log, metrics } = deps;
  const from = await toldUntil(db);
  const changes = await changesSince(db, from);
  const last = changes.at(-1);
  if (last === undefined) return;
  for (const { who, what, target, before, after } of changes) {
    log.info({ who, what, target, before, after }, 'an operator made a change');
    if (what === 'notification cancel') metrics.ended('cancelled');
  }
  const states = await listStateChanges(db, {
    since: writtenAtMs(from) + 1,
    onBroken: (clientToken, err) => noteBroken(deps, clientToken, { err }),
  });
  for (const change of states) {
    if (change.by === 'operator' && change.atMs <= last.atMs) tellStateChange({ log, metrics }, change);
  }
  await tellUntil(db, last.id);
}
