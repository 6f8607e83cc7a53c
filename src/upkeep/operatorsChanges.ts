import { setTimeout as sleep } from 'node:timers/promises';
import { membersOf, timeAt } from '../redis/connection/db.js';
import { listChanges, writtenAtMs } from '../redis/records/audit.js';
import { listStateChanges, reportStateChange } from '../redis/records/endpoint.js';
import type { SweepRound } from './sweepRound.js';

/** So long after the entry of an operator's change the states that follow it are looked for once more. */
const changeTakesMs = 30_000;
/** Changes that are logged at a time: further lines would be lost before the log's reader has taken these. */
const changesPerStep = 200;
const stepRestMs = 10;

/**
 * Logs operators' changes since the last sweep, and counts the states that registrations entered and the notifications that were
 * cancelled. The commands run in processes whose log and counters are not kept.
 */
export async function reportOperatorsChanges(round: SweepRound): Promise<void> {
  const { db, log, metrics } = round.deps;
  const [from = '0-0', toldMs = writtenAtMs(from)] =
    (await db.redis.get(db.global.auditTold))?.split(' ') ?? [];
  const changes = await listChanges(db, `(${from}`);
  const last = changes.at(-1)?.id ?? from;
  const till = await timeAt(db, db.global.auditTold);
  const settledMs = writtenAtMs(last) + changeTakesMs;
  if (changes.length === 0 && (till < settledMs || Number(toldMs) >= settledMs)) return;
  // A client's own, or those of an account.
  const lately = await listChanges(db, String(Math.max(0, Number(toldMs) - changeTakesMs)));
  const targets = [...new Set(lately.map(({ target }) => target))];
  const sites: string[] = [];
  for (const target of targets)
    for await (const some of membersOf(db, db.global.accountClients(target))) sites.push(...some);
  const states = await listStateChanges(
    db,
    [...new Set([...targets, ...sites])],
    Number(toldMs),
    (clientToken, err) => round.noteBroken(clientToken, { err }),
  );
  // A full Redis refuses this write: the changes are then logged later, instead of by every sweep.
  await db.redis.set(db.global.auditTold, `${last} ${till}`);
  for (let at = 0; at < changes.length; at += changesPerStep) {
    for (const { who, what, target, before, after, cancels } of changes.slice(at, at + changesPerStep)) {
      log.info({ who, what, target, before, after }, 'an operator made a change');
      metrics.ended('cancelled', cancels);
    }
    await sleep(stepRestMs);
  }
  for (const change of states) {
    if (change.by === 'operator' && change.at < till) reportStateChange(round.deps, change);
  }
}
