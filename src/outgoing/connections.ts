import { Connection } from './connection.js';
import type { Destination, Guard } from './open-socket.js';

/** A post that holds, or waits for, one connection to an origin. */
export interface Holder {
  /** Called once, at once or when it is this holder's turn. */
  start(connection: Connection): void;
}

/**
 * Connections of all origins. Each origin has its own bound and its own queue, so no origin waits for
 * another. Idle connections are kept for reuse, of at most `maxOrigins` origins: the origin that was idle
 * longest loses its connections first. An origin with neither connections nor waiting posts is forgotten.
 */
export class Connections {
  readonly #origins = new Map<string, OriginConnections>();
  /** Origins with idle connections only, the longest idle first. */
  readonly #resting = new Map<string, OriginConnections>();

  constructor(
    readonly guard: Guard,
    readonly maxOrigins: number,
    readonly connectionsPerOrigin: number,
  ) {}

  /** The connections of an origin (`https://example.com:8443`). To be followed by `acquire`. */
  of(origin: string, to: () => Destination): OriginConnections {
    let connections = this.#origins.get(origin);
    if (connections === undefined) {
      connections = new OriginConnections(origin, to(), this);
      this.#origins.set(origin, connections);
    }
    return connections;
  }

  destroy(): void {
    for (const origin of this.#origins.values()) origin.destroyIdle();
    this.#origins.clear();
    this.#resting.clear();
  }

  markInUse(connections: OriginConnections): void {
    this.#resting.delete(connections.origin);
  }

  markResting(connections: OriginConnections): void {
    this.#resting.set(connections.origin, connections);
    if (this.#resting.size <= this.maxOrigins) return;
    for (const longest of this.#resting.values()) {
      longest.destroyIdle();
      break;
    }
  }

  forget(connections: OriginConnections): void {
    this.#resting.delete(connections.origin);
    if (this.#origins.get(connections.origin) === connections) this.#origins.delete(connections.origin);
  }
}

/** The connections of one origin: `idle` and those in use, at most as many as the bound. */
export class OriginConnections {
  readonly #idle: Connection[] = [];
  readonly #waiting = new Set<Holder>();
  #inUse = 0;

  constructor(
    readonly origin: string,
    readonly to: Destination,
    readonly all: Connections,
  ) {}

  acquire(holder: Holder): void {
    const connection = this.#idle.pop();
    if (connection !== undefined) {
      this.#inUse++;
      this.all.markInUse(this);
      holder.start(connection);
    } else if (this.#inUse < this.all.connectionsPerOrigin) {
      this.#inUse++;
      holder.start(this.#connect());
    } else {
      this.#waiting.add(holder);
    }
  }

  /** A holder gives up before it was started. */
  leave(holder: Holder): void {
    this.#waiting.delete(holder);
  }

  /** In the place of a connection that turned out to be stale: a new one, within the bound. */
  replace(stale: Connection): Connection {
    stale.destroy();
    return this.#connect();
  }

  /** @param reusable the answer was read to its end; otherwise the connection is closed */
  release(connection: Connection, reusable: boolean): void {
    if (reusable) connection.rest();
    else connection.destroy();
    for (const next of this.#waiting) {
      this.#waiting.delete(next);
      // Not from within the parser's callback: a request that is written there reads from the socket again.
      queueMicrotask(() => next.start(reusable ? connection : this.#connect()));
      return;
    }
    this.#inUse--;
    if (reusable) this.#idle.push(connection);
    this.#rest();
  }

  destroyIdle(): void {
    for (const connection of this.#idle.splice(0)) connection.destroy();
    this.#rest();
  }

  #connect(): Connection {
    const connection = new Connection(this.origin, this.to, this.all.guard);
    connection.onIdleClose = () => {
      const at = this.#idle.indexOf(connection);
      if (at === -1) return;
      this.#idle.splice(at, 1);
      connection.destroy();
      this.#rest();
    };
    return connection;
  }

  #rest(): void {
    if (this.#inUse > 0) return;
    if (this.#idle.length > 0) this.all.markResting(this);
    else this.all.forget(this);
  }
}
