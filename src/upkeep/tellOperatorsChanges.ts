import { changesSince, tellUntil, toldUntil, writtenAtMs } from '../redis/records/audit.js';
import { listStateChanges } from '../redis/records/stateChanges.js';
import { tellStateChange } from '../tellStateChange.js';
import { keepAsBroken } from './brokenClients.js';
import type { ActivityDeps } from './deps.js';

/**
 * Logs what operators have changed since it last did, and counts the states that registrations entered by it
 * and the notifications that it cancelled. The commands themselves run in processes whose log and counters nobody keeps.
 */
export async function tellOperatorsChanges(deps: ActivityDeps): Promise<void> {
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
    onBroken: (clientToken, err) => keepAsBroken(deps, clientToken, { err }),
  });
  for (const change of states) {
    if (change.by === 'operator' && change.atMs <= last.atMs) tellStateChange({ log, metrics }, change);
  }
  await tellUntil(db, last.id);
}
