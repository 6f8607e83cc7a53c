import type { DeliveryMetrics } from '../delivery/send.js';
import type { Logger } from '../log.js';
import type { Notices } from '../notices/notices.js';
import { mapInPages } from '../promises.js';
import type { Db } from '../redis/connection/db.js';
import { isRedisUnavailable, refusalOf, unlessBroken } from '../redis/connection/unavailable.js';
import type { CatchUps } from '../temporal/catchUps.js';

export interface SweepDeps {
  db: Db;
  catchUps: Pick<CatchUps, 'alarm'>;
  notices: Pick<Notices, 'claim'>;
  log: Logger;
  metrics: DeliveryMetrics;
}

/** Clients handled at the same time: one after the other, a busy server took 0.2 s for each started catch-up. */
const concurrency = 20;

/** One sweep: leaves out clients with broken keys and a part of Redis that does not answer, and logs each once. */
export class SweepRound {
  /** Clients whose keys this sweep could not read, or whose keys contradict each other. */
  readonly broken = new Set<string>();
  #isPartAway = false;

  constructor(readonly deps: SweepDeps) {}

  /** Works on each of these clients, some at a time; what one of them fails by does not stop the others. */
  async workOn(clients: readonly string[], work: (clientToken: string) => Promise<unknown>): Promise<void> {
    await mapInPages(clients, concurrency, (clientToken) =>
      unlessBroken(work(clientToken), (err) => this.noteBroken(clientToken, { err })).catch(this.noteAway),
    );
  }

  noteBroken(clientToken: string, because: { err: unknown } | { problem: string }): void {
    if (this.broken.has(clientToken)) return;
    this.broken.add(clientToken);
    this.deps.log.error({ ...because, client_token: clientToken }, 'the keys of this client are broken');
  }

  /** Logs that a part of Redis does not serve. @throws any other error */
  readonly noteAway = (err: unknown): undefined => {
    if (!isRedisUnavailable(err)) throw err;
    if (!this.#isPartAway)
      this.deps.log.warn(refusalOf(err), 'a part of redis does not serve: the sweep leaves it out');
    this.#isPartAway = true;
  };
}
