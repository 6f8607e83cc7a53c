import { Connection } from './connection.js';
import type { Destination, Guard } from './opening.js';
import { Turns } from './turns.js';

/**
 * The connections of all origins. Each origin has its own bound and its own queue; all share the process's
 * sockets. Idle connections are kept for reuse. If a socket is needed and none is left, the connection
 * that has been idle longest is closed. If none is idle, the origins that need a socket queue for one, also
 * an origin that has just given one back.
 */
export class Connections {
  readonly #origins = new Map<string, Origin>();
  /** The longest idle first. */
  readonly #idle = new Map<Connection, Origin>();
  /** Origins that lack nothing but a socket, in the order of their turns. */
  readonly #wanting = new Set<Origin>();
  /** Sockets taken: one for each place in use and for each idle connection. */
  #sockets = 0;
  /** How many wait for a place, over all origins. */
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

  /** Whether `takeSocket` would succeed. */
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

  /** Queues an origin that lacks nothing but a socket, until it leaves. */
  queueForSocket(origin: Origin): void {
    this.#wanting.add(origin);
  }

  leaveQueueForSocket(origin: Origin): void {
    this.#wanting.delete(origin);
  }

  /** Grants what can be granted now that `origin` has one place fewer in use. */
  serve(origin: Origin): void {
    if (origin.wantsSocket) this.#wanting.add(origin);
    // An origin that is added again comes after the others, within the same loop.
    for (const next of this.#wanting) {
      if (!next.grantNext()) return;
      this.#wanting.delete(next);
      if (next.wantsSocket) this.#wanting.add(next);
    }
  }

  /** Removes an origin without places, waiters and connections. */
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

/** Asks for a place at an origin. */
export interface Waiter {
  /** The origin's places are shared in turn among clients. */
  readonly client: string;
  /** Called once. @param connection an open one, if there is one */
  granted(connection: Connection | undefined): void;
}

/**
 * The places of one origin: those in use, up to the bound, and connections that are kept idle. A waiter that finds no
 * place queues; the clients that wait are served in turn. A newcomer is granted a place at once only if nobody waits:
 * nobody is overtaken.
 */
export class Origin {
  readonly #idle: Connection[] = [];
  readonly #waiting = new Turns<Waiter>();
  #inUse = 0;

  constructor(
    readonly name: string,
    readonly to: Destination,
    readonly connections: Connections,
  ) {}

  /** Whether it lacks nothing but a socket for its next waiter. */
  get wantsSocket(): boolean {
    return this.#waiting.size > 0 && this.#inUse < this.connections.perOrigin;
  }

  /** Grants a place immediately, or queues the waiter. */
  acquire(waiter: Waiter): void {
    if (this.#waiting.size === 0 && this.#inUse < this.connections.perOrigin) {
      if (this.#grant(waiter)) return;
      this.connections.queueForSocket(this);
    }
    this.#waiting.add(waiter.client, waiter);
    this.connections.waiting++;
  }

  /** Removes a waiter that gives up before its turn. */
  leave(waiter: Waiter): void {
    this.#waiting.delete(waiter.client, waiter);
    this.connections.waiting--;
    if (!this.wantsSocket) this.connections.leaveQueueForSocket(this);
    this.#forgetIfUnused();
  }

  /** Grants a place to the next waiter. @returns false if there is no socket for it */
  grantNext(): boolean {
    if (this.#idle.length === 0 && !this.connections.hasSocket()) return false;
    const next = this.#waiting.next();
    if (next === undefined) return false;
    this.connections.waiting--;
    return this.#grant(next);
  }

  /** Makes a connection for a place that was granted without one. */
  connect(): Connection {
    const connection = new Connection(this.name, this.to, this.connections.guard);
    connection.onIdleClose = () => this.closeIdle(connection);
    return connection;
  }

  /** Makes a connection in the place of a stale one. */
  replace(stale: Connection): Connection {
    stale.destroy();
    return this.connect();
  }

  /** Takes a place back. @param reusable the connection is open and between two requests; otherwise it is closed */
  release(connection: Connection | undefined, reusable: boolean): void {
    this.#inUse--;
    if (connection !== undefined && reusable) {
      connection.rest();
      this.#idle.push(connection);
      this.connections.keepIdle(connection, this);
    } else {
      connection?.destroy();
      this.connections.giveBackSocket();
    }
    this.connections.serve(this);
    this.#forgetIfUnused();
  }

  /** Closes a connection, unless it is in use. */
  closeIdle(connection: Connection): void {
    const at = this.#idle.indexOf(connection);
    if (at === -1) return;
    this.#idle.splice(at, 1);
    connection.destroy();
    this.connections.dropIdle(connection);
    this.connections.giveBackSocket();
    this.#forgetIfUnused();
  }

  #grant(waiter: Waiter): boolean {
    const connection = this.#idle.pop();
    if (connection !== undefined) this.connections.dropIdle(connection);
    else if (!this.connections.takeSocket()) return false;
    this.#inUse++;
    waiter.granted(connection);
    return true;
  }

  #forgetIfUnused(): void {
    if (this.#inUse === 0 && this.#idle.length === 0 && this.#waiting.size === 0)
      this.connections.forget(this);
  }
}
