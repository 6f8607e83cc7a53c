import type { Db } from './db.js';
import type { Nodes } from './nodes.js';

/**
 * Remembers the names that this process has written over its present connection, so that it does not write them again: the
 * oldest first, and only as long as they count. After a reconnect, or a failover in a cluster, a server may have lost its last
 * second: every name is due again.
 */
export class Announced {
  readonly #by = new WeakMap<Nodes, Map<string, number>>();

  constructor(readonly countsForMs: number) {}

  /** Tells whether a name must be written (again). @param at now, ms */
  isDue(db: Db, name: string, at: number): boolean {
    return at - (this.#of(db).get(name) ?? Number.NEGATIVE_INFINITY) > this.countsForMs;
  }

  /**
   * Call it before a write. Returns a function that remembers the written names, unless a server was lost meanwhile.
   * @param at now, ms
   */
  noting(db: Db, at: number): (names: Iterable<string>) => void {
    const known = this.#of(db);
    return (names) => {
      for (const name of names) {
        known.delete(name);
        known.set(name, at);
      }
      for (const [name, since] of known) {
        if (at - since <= this.countsForMs) break;
        known.delete(name);
      }
    };
  }

  forget(db: Db, name: string): void {
    this.#of(db).delete(name);
  }

  #of({ nodes }: Db): Map<string, number> {
    const known = this.#by.get(nodes);
    if (known !== undefined) return known;
    const names = new Map<string, number>();
    this.#by.set(nodes, names);
    nodes.onLost(() => this.#by.set(nodes, new Map()));
    return names;
  }
}
