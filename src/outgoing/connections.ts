import { Connection } from './connection.js';
import { Lessons } from './lessons.js';
import type { Destination, Guard } from './opening.js';

/** Takes a granted permit: a connection that was kept open, or is still to be opened. */
type Waiter = (connection: Connection) => void;

/** An origin with its permits in use and the connections that are kept idle. */
interface Origin extends Destination {
  readonly idle: Connection[];
  /** By client, in the order of their turns; a client that does not wait is not in it. */
  readonly waiting: Map<string, Set<Waiter>>;
  inUse: number;
  /** New connections that have waited too long for an answer, and since when the next resting one may be closed for each. */
  readonly unserved: Map<Connection, number>;
  /** The shortest time to an answer. */
  fastestMs: number;
}

/** How often a resting connection may be closed for one that has no answer. */
const relievedMs = 1_000;
/** An answer so soon after a resting connection was closed came because of that. */
const soonMs = 500;

export interface ConnectionBounds {
  /** Connections to one origin, with idle ones. */
  connectionsPerOrigin: number;
  /** Connections to all origins, with idle ones. */
  maxSockets: number;
  /** Origins whose names are looked up at the same time, so that the resolver is not flooded (256). */
  maxLookups: number;
}

/**
 * The permits and connections of all origins. Whoever gets no permit queues, and the clients of an origin are served in turn:
 * nobody is overtaken. If a socket is needed and none is left, the connection that has been idle longest is closed. If none
 * is idle, the origins get a socket in turn, even an origin that has just given a socket back.
 *
 * No origin has more sockets in use than are left to others: many slow receivers leave some to a fast one.
 *
 * A receiver with one connection for each worker serves no new one while another rests: one that rests is closed for each new one
 * that has waited for a second, and for more than twice the time of this origin's fastest answer.
 *
 * A permit without an open connection is granted only if its name may be looked up immediately. The rare lookup of a
 * connection that is opened again is not counted.
 */
export class Connections {
  readonly #origins = new Map<string, Origin>();
  readonly #lessons = new Lessons();
  /** The longest idle first. */
  readonly #idle = new Map<Connection, Origin>();
  readonly #inUse = new Map<Connection, Origin>();
  /** The first new connection of each origin whose name has no addresses yet. */
  readonly #naming = new Map<Origin, Connection>();
  /** Origins that lack nothing but a socket, a fair share of them or a lookup, in the order of their turns. */
  readonly #wanting = new Set<Origin>();
  /** The number of waiters, over all origins. */
  waiting = 0;
  #onClosed: (() => void) | undefined;

  constructor(
    readonly guard: Guard,
    readonly bounds: ConnectionBounds,
  ) {}

  /** Waits for a permit. @returns undefined if there was none within this time */
  acquire(
    to: Omit<Destination, 'lesson'>,
    client: string,
    withinMs: number,
  ): Promise<Connection | undefined> {
    const origin = this.#origins.get(to.name) ?? this.#newOrigin(to);
    this.#origins.set(to.name, origin);
    return new Promise((resolve) => {
      let timer: NodeJS.Timeout | undefined;
      const waiter: Waiter = (connection) => {
        clearTimeout(timer);
        resolve(connection);
      };
      const leave = (): void => {
        this.#dequeue(origin, client, waiter);
        this.#forgetIfUnused(origin);
        resolve(undefined);
      };
      const waiters = origin.waiting.get(client) ?? new Set();
      origin.waiting.set(client, waiters.add(waiter));
      this.waiting++;
      this.#want(origin);
      this.#serve();
      if (waiters.has(waiter) && withinMs < Infinity) timer = setTimeout(leave, withinMs);
    });
  }

  #newOrigin(to: Omit<Destination, 'lesson'>): Origin {
    const lesson = this.#lessons.take(to.name);
    return {
      ...to,
      lesson,
      idle: [],
      waiting: new Map(),
      inUse: 0,
      unserved: new Map(),
      fastestMs: Infinity,
    };
  }

  /** Takes a permit back. @param isReusable the connection is open and between two requests; otherwise it is closed */
  release(connection: Connection, isReusable: boolean): void {
    const origin = this.#inUse.get(connection);
    if (origin === undefined) return;
    this.#inUse.delete(connection);
    origin.inUse--;
    origin.unserved.delete(connection);
    if (isReusable && this.#onClosed === undefined) {
      origin.idle.push(connection);
      this.#idle.set(connection, origin);
      this.#relieve(origin);
    } else connection.destroy();
    this.#want(origin);
    this.#endNaming(origin, connection);
    this.#forgetIfUnused(origin);
  }

  /** The receiver of a client has answered. */
  answered({ remoteAddress, to }: Connection, client: string): void {
    if (remoteAddress !== undefined) this.guard.reach.answered(remoteAddress, to.port, client);
  }

  /** Closes each connection once nobody holds or waits for it; resolves when all are closed. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#onClosed = resolve;
      for (const connection of this.#idle.keys()) this.#closeIdle(connection);
      if (this.#origins.size === 0) resolve();
    });
  }

  #want(origin: Origin): void {
    if (origin.waiting.size > 0 && origin.inUse < this.bounds.connectionsPerOrigin) this.#wanting.add(origin);
  }

  /** Grants what can be granted. An origin that is added again comes after the others, within the same loop. */
  #serve(): void {
    for (const origin of this.#wanting) {
      const left = this.bounds.maxSockets - this.#inUse.size;
      if (left <= 0) return;
      if (origin.inUse >= left) continue;
      const mayLookUp = this.#naming.has(origin) || this.#naming.size < this.bounds.maxLookups;
      if (origin.idle.length === 0 && !mayLookUp) continue;
      this.#wanting.delete(origin);
      const connection = origin.idle.pop() ?? this.#connect(origin);
      this.#idle.delete(connection);
      this.#inUse.set(connection, origin);
      origin.inUse++;
      this.#grant(origin, connection);
      this.#want(origin);
    }
  }

  #connect(origin: Origin): Connection {
    const [longestIdle] = this.#idle.keys();
    const isFull = this.#inUse.size + this.#idle.size >= this.bounds.maxSockets;
    if (isFull && longestIdle !== undefined) this.#closeIdle(longestIdle);
    const connection: Connection = new Connection(origin, this.guard, {
      onLookedUp: () => this.#endNaming(origin, connection),
      onUnanswered: (waitedMs) => {
        if (waitedMs < 2 * origin.fastestMs || !this.#inUse.has(connection)) return;
        if (!origin.unserved.has(connection)) origin.unserved.set(connection, 0);
        this.#relieve(origin);
      },
      onAnswered: (afterMs) => {
        const relievedAtMs = (origin.unserved.get(connection) ?? 0) - relievedMs;
        origin.unserved.delete(connection);
        origin.answeredAtMs = performance.now();
        if (origin.answeredAtMs - relievedAtMs < soonMs) connection.remarks.add('one_connection');
        origin.fastestMs = Math.min(origin.fastestMs, afterMs);
      },
      onClosed: () => this.#closeIdle(connection),
    });
    if (!this.#naming.has(origin)) this.#naming.set(origin, connection);
    return connection;
  }

  /** Closes connections that rest for those that wait. */
  #relieve(origin: Origin): void {
    const nowMs = performance.now();
    for (const [connection, fromMs] of origin.unserved) {
      const [longestIdle] = origin.idle;
      if (longestIdle === undefined) return;
      if (nowMs < fromMs) continue;
      origin.unserved.set(connection, nowMs + relievedMs);
      this.#closeIdle(longestIdle);
    }
  }

  /** Grants the permit to the oldest waiter of the client whose turn it is; its other waiters come after the other clients. */
  #grant(origin: Origin, connection: Connection): void {
    for (const [client, waiters] of origin.waiting) {
      for (const waiter of waiters) {
        origin.waiting.delete(client);
        origin.waiting.set(client, waiters);
        this.#dequeue(origin, client, waiter);
        waiter(connection);
        return;
      }
    }
  }

  #dequeue(origin: Origin, client: string, waiter: Waiter): void {
    const waiters = origin.waiting.get(client);
    waiters?.delete(waiter);
    if (waiters?.size === 0) origin.waiting.delete(client);
    if (origin.waiting.size === 0) this.#wanting.delete(origin);
    this.waiting--;
  }

  #endNaming(origin: Origin, connection: Connection): void {
    if (this.#naming.get(origin) === connection) this.#naming.delete(origin);
    this.#serve();
  }

  #closeIdle(connection: Connection): void {
    const origin = this.#idle.get(connection);
    if (origin === undefined) return;
    this.#idle.delete(connection);
    origin.idle.splice(origin.idle.indexOf(connection), 1);
    connection.destroy();
    this.#forgetIfUnused(origin);
  }

  #forgetIfUnused(origin: Origin): void {
    const isUsed = origin.inUse > 0 || origin.idle.length > 0 || origin.waiting.size > 0;
    if (!isUsed && this.#origins.delete(origin.name)) this.#lessons.keep(origin.name, origin.lesson);
    if (this.#origins.size === 0) this.#onClosed?.();
  }
}
