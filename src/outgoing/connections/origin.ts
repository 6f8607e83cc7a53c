import { Connection } from './connection.js';
import type { Destination, Guard } from './opening.js';
import { Turns } from './turns.js';

/** Asks for a place at an origin. */
export interface Waiter {
  /** The origin's places are shared in turn among clients. */
  readonly client: string;
  /** Called once. @param connection an open one, if there is one */
  granted(connection: Connection | undefined): void;
}

/** The state that the origins of a process share. */
export interface SharedByOrigins {
  readonly guard: Guard;
  readonly perOrigin: number;
  /** How many wait for a place, over all origins. */
  waiting: number;
  /** Whether `takeSocket` would succeed. */
  hasSocket(): boolean;
  takeSocket(): boolean;
  giveBackSocket(): void;
  /** Queues an origin that lacks nothing but a socket, until it leaves. */
  queueForSocket(origin: Origin): void;
  leaveQueueForSocket(origin: Origin): void;
  /** Grants what can be granted now that `origin` has one place fewer in use. */
  serve(origin: Origin): void;
  keepIdle(connection: Connection, origin: Origin): void;
  dropIdle(connection: Connection): void;
  /** Removes an origin without places, waiters and connections. */
  forget(origin: Origin): void;
}

/**
 * The places of one origin: those in use, up to the bound, and connections that are kept idle. A waiter that finds no
 * place queues; the clients that wait are served in turn.
 *
 * A waiter exists only while the bound is reached or there is no socket, so nobody overtakes it.
 */
export class Origin {
  readonly #idle: Connection[] = [];
  readonly #waiting = new Turns<Waiter>();
  #inUse = 0;

  constructor(
    readonly name: string,
    readonly to: Destination,
    readonly all: SharedByOrigins,
  ) {}

  /** Whether it lacks nothing but a socket for its next waiter. */
  get wantsSocket(): boolean {
    return this.#waiting.size > 0 && this.#inUse < this.all.perOrigin;
  }

  /** Grants a place immediately, or queues the waiter. */
  acquire(waiter: Waiter): void {
    if (this.#waiting.size === 0 && this.#inUse < this.all.perOrigin) {
      if (this.#grant(waiter)) return;
      this.all.queueForSocket(this);
    }
    this.#waiting.add(waiter.client, waiter);
    this.all.waiting++;
  }

  /** Removes a waiter that gives up before its turn. */
  leave(waiter: Waiter): void {
    this.#waiting.delete(waiter.client, waiter);
    this.all.waiting--;
    if (!this.wantsSocket) this.all.leaveQueueForSocket(this);
    this.#forgetIfUnused();
  }

  /** Grants a place to the next waiter. @returns false if there is no socket for it */
  grantNext(): boolean {
    if (this.#idle.length === 0 && !this.all.hasSocket()) return false;
    const next = this.#waiting.next();
    if (next === undefined) return false;
    this.all.waiting--;
    return this.#grant(next);
  }

  /** Makes a connection for a place that was granted without one. */
  connect(): Connection {
    const connection = new Connection(this.name, this.to, this.all.guard);
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
      this.all.keepIdle(connection, this);
    } else {
      connection?.destroy();
      this.all.giveBackSocket();
    }
    this.all.serve(this);
    this.#forgetIfUnused();
  }

  /** Closes a connection, unless it is in use. */
  closeIdle(connection: Connection): void {
    const at = this.#idle.indexOf(connection);
    if (at === -1) return;
    this.#idle.splice(at, 1);
    connection.destroy();
    this.all.dropIdle(connection);
    this.all.giveBackSocket();
    this.#forgetIfUnused();
  }

  #grant(waiter: Waiter): boolean {
    const connection = this.#idle.pop();
    if (connection !== undefined) this.all.dropIdle(connection);
    else if (!this.all.takeSocket()) return false;
    this.#inUse++;
    waiter.granted(connection);
    return true;
  }

  #forgetIfUnused(): void {
    if (this.#inUse === 0 && this.#idle.length === 0 && this.#waiting.size === 0) this.all.forget(this);
  }
}
