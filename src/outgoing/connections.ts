import { Connection, type Destination, type Guard } from './connection.js';

/** Asks for a place at an origin. */
export interface Waiter {
  readonly origin: Origin;
  /** The origin's places are shared in turn among clients. */
  readonly client: string;
  /** Called once. @param connection an open one, if there is one */
  granted(connection: Connection | undefined): void;
}

/** An origin with its places in use and the connections that are kept idle. */
export interface Origin extends Destination {
  readonly idle: Connection[];
  readonly waiting: Turns<Waiter>;
  inUse: number;
}

/**
 * The places and connections of all origins. An origin has at most `perOrigin` connections, and all origins together
 * `maxSockets`, both with idle ones. A waiter that finds no place queues, and the clients of an origin are served in turn:
 * nobody is overtaken. If a socket is needed and none is left, the connection that has been idle longest is closed. If none
 * is idle, the origins get a socket in turn, also an origin that has just given one back.
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
  of(name: string, destination: () => Omit<Destination, 'name'>): Origin {
    let origin = this.#origins.get(name);
    if (origin === undefined) {
      origin = { name, ...destination(), idle: [], waiting: new Turns(), inUse: 0 };
      this.#origins.set(name, origin);
    }
    return origin;
  }

  /** Grants a place immediately, or queues the waiter. */
  acquire(waiter: Waiter): void {
    const { origin } = waiter;
    if (origin.waiting.size === 0 && origin.inUse < this.perOrigin && this.#hasConnection(origin)) {
      this.#grant(waiter);
      return;
    }
    origin.waiting.add(waiter.client, waiter);
    this.waiting++;
    this.#queueForSocket(origin);
  }

  /** Removes a waiter that gives up before its turn. */
  leave(waiter: Waiter): void {
    const { origin } = waiter;
    origin.waiting.delete(waiter.client, waiter);
    this.waiting--;
    if (origin.waiting.size === 0) this.#wanting.delete(origin);
    this.#forgetIfUnused(origin);
  }

  /** Makes a connection for a place that was granted without one. */
  connect(origin: Origin): Connection {
    return new Connection(origin, this.guard, (closed) => this.#closeIdle(closed));
  }

  /** Takes a place back. @param reusable the connection is open and between two requests; otherwise it is closed */
  release(origin: Origin, connection: Connection | undefined, reusable: boolean): void {
    origin.inUse--;
    if (connection !== undefined && reusable) {
      connection.rest();
      origin.idle.push(connection);
      this.#idle.set(connection, origin);
    } else {
      connection?.destroy();
      this.#sockets--;
    }
    this.#queueForSocket(origin);
    // An origin that is added again comes after the others, within the same loop.
    for (const next of this.#wanting) {
      if (!this.#hasConnection(next)) break;
      this.#wanting.delete(next);
      const waiter = next.waiting.next();
      if (waiter === undefined) continue;
      this.waiting--;
      this.#grant(waiter);
      this.#queueForSocket(next);
    }
    this.#forgetIfUnused(origin);
  }

  /** Closes idle connections. */
  destroy(): void {
    for (const connection of this.#idle.keys()) this.#closeIdle(connection);
  }

  /** Whether a place can have a connection: an idle one, a new one, or one in the stead of another origin's idle one. */
  #hasConnection(origin: Origin): boolean {
    return origin.idle.length > 0 || this.#sockets < this.maxSockets || this.#idle.size > 0;
  }

  #queueForSocket(origin: Origin): void {
    if (origin.waiting.size > 0 && origin.inUse < this.perOrigin) this.#wanting.add(origin);
  }

  #grant(waiter: Waiter): void {
    const connection = waiter.origin.idle.pop();
    if (connection !== undefined) this.#idle.delete(connection);
    else {
      const [longestIdle] = this.#sockets < this.maxSockets ? [] : this.#idle.keys();
      if (longestIdle !== undefined) this.#closeIdle(longestIdle);
      this.#sockets++;
    }
    waiter.origin.inUse++;
    waiter.granted(connection);
  }

  #closeIdle(connection: Connection): void {
    const origin = this.#idle.get(connection);
    if (origin === undefined) return;
    this.#idle.delete(connection);
    origin.idle.splice(origin.idle.indexOf(connection), 1);
    connection.destroy();
    this.#sockets--;
    this.#forgetIfUnused(origin);
  }

  #forgetIfUnused(origin: Origin): void {
    if (origin.inUse > 0 || origin.idle.length > 0 || origin.waiting.size > 0) return;
    if (this.#origins.get(origin.name) === origin) this.#origins.delete(origin.name);
  }
}

/** Queues items of several clients. `next` takes the oldest item of each client in turn. */
class Turns<T> {
  /** In the order of their turns; a client without items is not in it. */
  readonly #byClient = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(client: string, item: T): void {
    const items = this.#byClient.get(client);
    if (items === undefined) this.#byClient.set(client, new Set([item]));
    else items.add(item);
    this.#size++;
  }

  delete(client: string, item: T): void {
    const items = this.#byClient.get(client);
    if (!items?.delete(item)) return;
    if (items.size === 0) this.#byClient.delete(client);
    this.#size--;
  }

  next(): T | undefined {
    for (const [client, items] of this.#byClient) {
      this.#byClient.delete(client);
      for (const item of items) {
        items.delete(item);
        if (items.size > 0) this.#byClient.set(client, items);
        this.#size--;
        return item;
      }
    }
    return undefined;
  }
}
