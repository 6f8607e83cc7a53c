import type { Connection } from './connection.js';
import type { Destination, Guard } from './opening.js';
import { Origin, type SharedByOrigins } from './origin.js';

/**
 * The connections of all origins. Each origin has its own bound and its own queue; all share the process's
 * sockets. Idle connections are kept for reuse. If a socket is needed and none is left, the connection
 * that has been idle longest is closed. If none is idle, the origins that need a socket get one in turn,
 * also those that give one back.
 */
export class Connections implements SharedByOrigins {
  readonly #origins = new Map<string, Origin>();
  /** The longest idle first. */
  readonly #idle = new Map<Connection, Origin>();
  /** Origins that lack nothing but a socket, in the order of their turns. */
  readonly #wanting = new Set<Origin>();
  /** Sockets taken: one for each place in use and for each idle connection. */
  #sockets = 0;
  waiting = 0;

  constructor(
    readonly guard: Guard,
    readonly perOrigin: number,
    readonly maxSockets: number,
  ) {}

  /** Returns an origin (`https://example.com:8443`). The caller must call `acquire` next. */
  of(name: string, to: () => Destination): Origin {
    let origin = this.#origins.get(name);
    if (origin === undefined) {
      origin = new Origin(name, to(), this);
      this.#origins.set(name, origin);
    }
    return origin;
  }

  hasSocket(): boolean {
    return this.#sockets < this.maxSockets || this.#idle.size > 0;
  }

  /** Takes a socket, that of the longest idle connection if need be. */
  takeSocket(): boolean {
    if (this.#sockets >= this.maxSockets) this.#closeLongestIdle();
    if (this.#sockets >= this.maxSockets) return false;
    this.#sockets++;
    return true;
  }

  giveBackSocket(): void {
    this.#sockets--;
  }

  keepIdle(connection: Connection, origin: Origin): void {
    this.#idle.set(connection, origin);
  }

  dropIdle(connection: Connection): void {
    this.#idle.delete(connection);
  }

  queueForSocket(origin: Origin): void {
    this.#wanting.add(origin);
  }

  leaveQueueForSocket(origin: Origin): void {
    this.#wanting.delete(origin);
  }

  serve(origin: Origin): void {
    if (origin.wantsSocket) this.#wanting.add(origin);
    // An origin that is added again comes after the others, within the same loop.
    for (const next of this.#wanting) {
      if (!next.grantNext()) return;
      this.#wanting.delete(next);
      if (next.wantsSocket) this.#wanting.add(next);
    }
  }

  forget(origin: Origin): void {
    if (this.#origins.get(origin.name) === origin) this.#origins.delete(origin.name);
  }

  /** Closes idle connections. */
  destroy(): void {
    for (const [connection, origin] of this.#idle) origin.closeIdle(connection);
  }

  #closeLongestIdle(): void {
    for (const [connection, origin] of this.#idle) {
      origin.closeIdle(connection);
      return;
    }
  }
}
