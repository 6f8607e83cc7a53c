/** Finds work that was left behind: owed clients without catch-up, notices, interrupted deletions. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { DeliveryMetrics } from '../delivery/send.js';
import type { Logger } from '../log.js';
import type { Notices } from '../notices/notices.js';
import { mapInPages } from '../promises.js';
import { type Db, timeAt } from '../redis/connection/db.js';
import { isRedisUnavailable, refusalOf, unlessBroken } from '../redis/connection/unavailable.js';
import { forgetOwedClient, indexedClients } from '../redis/owed/owedClients.js';
import { getAccount } from '../redis/records/accounts.js';
import { noteOwed } from '../redis/records/attemptHistory.js';
import { listChanges, writtenAtMs } from '../redis/records/audit.js';
import { getClient } from '../redis/records/clients.js';
import { countEndpoints, noteCounts, readCounts } from '../redis/records/counts.js';
import { continueDeletion, deletionsUnderWay } from '../redis/records/deletion.js';
import { getEndpoint, listStateChanges, reportStateChange, setHeld } from '../redis/records/endpoint.js';
import type { CatchUps } from '../temporal/catchUps.js';

export interface SweepDeps {
  db: Db;
  catchUps: Pick<CatchUps, 'alarm'>;
  notices: Pick<Notices, 'claim'>;
  log: Logger;
  metrics: DeliveryMetrics;
}

/** The process that sends, or catch-up, may be this late. */
const graceMs = 2000;
/** What could have been sent for so long counts as overdue in the metrics. */
const longOverdueMs = 120_000;
/** Sweeps follow each other within this time, unless Redis' clock was set or no worker ran. */
const steadyWithinMs = 120_000;
/** Clients handled at the same time: one after the other, a busy server took 0.2 s for each started catch-up. */
const concurrency = 20;
/** Endpoints and notices of all clients are looked at this seldom. */
const allEveryMs = 60_000;
/** Clients whose notices one sweep claims; the next sweep claims the rest. */
const maxWithNotices = 2000;
/** Deleted clients that one sweep clears; the next sweep clears the rest. */
const maxDeletions = 50;
/** So long after the entry of an operator's change the states that follow it are looked for once more. */
const changeTakesMs = 30_000;
/** Changes that are logged at a time: further lines would be lost before the log's reader has taken these. */
const changesPerStep = 200;
const stepRestMs = 10;

export interface Swept {
  /** Clients that are owed something. */
  looked: number;
  /** Catch-ups that were woken because they were late, and those that were replaced because they were stuck. */
  woken: number;
  replaced: number;
}

/**
 * Wakes the catch-up of each client that is owed something, where it has not looked when it should have. Every minute the sweep counts the endpoints, repairs the hold of clients whose account was only partly disabled or enabled, and claims
 * notices that are left from processes that ended early, or operators' commands. It logs operators' changes, continues
 * interrupted deletions, and writes the counts for the metrics. A part of Redis that does not answer is left out.
 * @param counts gets the progress
 */
export async function runSweep(deps: SweepDeps, counts: Swept = { looked: 0, woken: 0, replaced: 0 }) {
  const sweep = new Sweep(deps, counts);
  await sweep.superviseCatchUps();
  await sweep
    .reportOperatorsChanges()
    .catch(sweep.noteAway)
    .catch((err: unknown) => deps.log.error({ err }, 'operator changes could not be logged'));
  await sweep.clearDeletedClients().catch(sweep.noteAway);
  const ended = { brokenClients: sweep.broken.size, steadyMs: sweep.steadyMs };
  await noteCounts(deps.db, 'ended', ended).catch(sweep.noteAway);
  return counts;
}

class Sweep {
  /** Clients whose keys this sweep could not read, or whose keys contradict each other. */
  readonly broken = new Set<string>();
  /** For how long sweeps have shown no jump of Redis' clock. */
  steadyMs = 0;
  #isPartAway = false;

  constructor(
    readonly deps: SweepDeps,
    readonly counts: Swept,
  ) {}

  async superviseCatchUps(): Promise<void> {
    const { db } = this.deps;
    const sum = { owed: 0, owedClients: 0, overdueClients: 0, oldestOverdueMs: 0, catchUps: 0 };
    const before = await readCounts(db).catch(this.noteAway);
    const { ageMs = Infinity, steadyMs = 0 } = before?.ended ?? {};
    this.steadyMs = ageMs < steadyWithinMs ? steadyMs + ageMs : 0;
    const looksAtAll = before?.endpoints === undefined || before.endpoints.ageMs >= allEveryMs;
    const supervise = async (clientToken: string): Promise<void> => {
      this.counts.looked++;
      const endpoint = await getEndpoint(db, clientToken);
      if (looksAtAll) {
        const client = await getClient(db, clientToken);
        const account = client && (await getAccount(db, client.accountId));
        if (account && account.disabled !== endpoint.held) await setHeld(db, clientToken, account.disabled);
      }
      if (!endpoint.isConsistent) {
        this.#noteBroken(clientToken, { problem: 'the keys owed, owed-since and due contradict each other' });
      }
      if (endpoint.owed === 0) return await forgetOwedClient(db, clientToken, this.steadyMs);
      sum.owed += endpoint.owed;
      sum.owedClients++;
      if (endpoint.catchUpUntil !== undefined) sum.catchUps++;
      if (endpoint.overdueMs > longOverdueMs) sum.overdueClients++;
      sum.oldestOverdueMs = Math.max(sum.oldestOverdueMs, endpoint.overdueMs);
      if (endpoint.catchUpLateMs <= graceMs) return;
      const done = await this.deps.catchUps.alarm(clientToken);
      if (done === 'woken' || done === 'replaced') this.counts[done]++;
    };
    for await (const page of indexedClients(db, this.noteAway)) {
      await mapInPages(page, concurrency, (clientToken) =>
        this.#workOn(clientToken, () => supervise(clientToken)),
      );
    }
    if (looksAtAll) await this.#lookAtAll().catch(this.noteAway);
    await Promise.all([noteCounts(db, 'counted', sum), noteOwed(db, sum.owed)]).catch(this.noteAway);
  }

  /**
   * Logs operators' changes since its last run, and counts the states that registrations entered
   * and the notifications that were cancelled. The commands run in processes whose log and counters are not kept.
   */
  async reportOperatorsChanges(): Promise<void> {
    const { db, log, metrics } = this.deps;
    const [from = '0-0', toldMs = writtenAtMs(from)] =
      (await db.redis.get(db.global.auditTold))?.split(' ') ?? [];
    const changes = await listChanges(db, `(${from}`);
    const last = changes.at(-1)?.id ?? from;
    const till = await timeAt(db, db.global.auditTold);
    const settledMs = writtenAtMs(last) + changeTakesMs;
    if (changes.length === 0 && (till < settledMs || Number(toldMs) >= settledMs)) return;
    const states = await listStateChanges(db, Number(toldMs), (clientToken, err) =>
      this.#noteBroken(clientToken, { err }),
    );
    // A full Redis refuses this write: the changes are then logged later, instead of by every sweep.
    await db.redis.set(db.global.auditTold, `${last} ${till}`);
    for (let at = 0; at < changes.length; at += changesPerStep) {
      for (const { who, what, target, before, after } of changes.slice(at, at + changesPerStep)) {
        log.info({ who, what, target, before, after }, 'an operator made a change');
        if (what === 'notification cancel') metrics.ended('cancelled');
        if (what === 'client delete') metrics.ended('cancelled', (before as { owed?: number }).owed ?? 0);
      }
      await sleep(stepRestMs);
    }
    for (const change of states) {
      if (change.by === 'operator' && change.at < till) reportStateChange({ log, metrics }, change);
    }
  }

  /** Continues interrupted deletions, and clears keys that others wrote during a deletion. */
  async clearDeletedClients(): Promise<void> {
    const { db, log } = this.deps;
    for (const deletion of await deletionsUnderWay(db, maxDeletions)) {
      await this.#workOn(deletion.clientToken, async () => {
        const { cancelled } = await continueDeletion(db, deletion);
        const names = { client_token: deletion.clientToken, cancelled };
        if (cancelled > 0) log.info(names, 'cancelled the owed notifications of a deleted client');
      });
    }
  }

  /** Counts the endpoints of all clients, and claims their notices. */
  async #lookAtAll(): Promise<void> {
    const { db, notices } = this.deps;
    const withNotices: string[] = [];
    const endpoints = await countEndpoints(db, {
      broken: async (clientToken, err) => this.#noteBroken(clientToken, { err }),
      notice: (clientToken) => withNotices.push(clientToken),
    });
    await mapInPages(withNotices.slice(0, maxWithNotices), concurrency, (clientToken) =>
      this.#workOn(clientToken, () => notices.claim(clientToken)),
    );
    await noteCounts(db, 'endpoints', endpoints);
  }

  /** Works on one client. Notes broken keys or a part of Redis that is away, so that the sweep continues with the other clients. */
  async #workOn(clientToken: string, work: () => Promise<void>): Promise<void> {
    await unlessBroken(work, (err) => this.#noteBroken(clientToken, { err })).catch(this.noteAway);
  }

  /** Counts a client with broken keys, and logs it once a sweep. */
  #noteBroken(clientToken: string, because: { err: unknown } | { problem: string }): void {
    if (this.broken.has(clientToken)) return;
    this.broken.add(clientToken);
    this.deps.log.error({ ...because, client_token: clientToken }, 'the keys of this client are broken');
  }

  /** Logs once that a part of Redis does not serve. @throws any other error */
  readonly noteAway = (err: unknown): undefined => {
    if (!isRedisUnavailable(err)) throw err;
    if (!this.#isPartAway)
      this.deps.log.warn(refusalOf(err), 'a part of redis does not serve: the sweep leaves it out');
    this.#isPartAway = true;
  };
}
