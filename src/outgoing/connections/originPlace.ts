import { isIP } from 'node:net';
import { Attempt, type AttemptOwner } from '../attempt.js';
import type { LookupPermit } from '../names/resolve.js';
import type { Body, Place, PostResult } from '../place.js';
import type { Connection } from './connection.js';
import type { Origin, Waiter } from './connections.js';

/** Counts places: the sender waits for them when it closes. */
export interface Ledger {
  readonly timeoutMs: number;
  posted(): void;
  /** The result of a post is known, or no longer wanted. */
  answered(): void;
  /** A place ended without a post. */
  givenBack(place: OriginPlace): void;
  /** Nothing more is read of a post's answer. */
  ended(place: OriginPlace): void;
}

/**
 * One place, from the wait for it until it is given back: waiting, naming (granted without a connection, it waits for a
 * permit to look up the name), ready, posted, over. The signal covers all of them.
 */
export class OriginPlace implements Place, Waiter, AttemptOwner {
  #state: 'waiting' | 'naming' | 'ready' | 'posted' | 'over' = 'waiting';
  #connection: Connection | undefined;
  #permit: LookupPermit | undefined;
  #attempt: Attempt | undefined;
  #onGranted: (place: Place) => void = () => undefined;
  #onResult: (result: PostResult) => void = () => undefined;
  #onRejected: (reason: unknown) => void = () => undefined;

  constructor(
    readonly origin: Origin,
    readonly path: string,
    readonly client: string,
    readonly signal: AbortSignal | undefined,
    readonly ledger: Ledger,
  ) {}

  /** Resolves to the place itself when it is granted. */
  wait(): Promise<Place> {
    this.signal?.addEventListener('abort', this.#onAbort, { once: true });
    this.origin.acquire(this);
    if (this.#state === 'ready') return Promise.resolve(this);
    return new Promise((resolve, reject) => {
      this.#onGranted = resolve;
      this.#onRejected = reject;
    });
  }

  granted(connection: Connection | undefined): void {
    this.#connection = connection;
    const { to, connections } = this.origin;
    if (connection !== undefined || isIP(to.host) !== 0) {
      this.#becomeReady();
      return;
    }
    this.#state = 'naming';
    connections.waiting++;
    connections.guard.names.takePermit(to.host, (permit) => {
      connections.waiting--;
      this.#permit = permit;
      if (this.#state === 'naming') this.#becomeReady();
      else permit.end();
    });
  }

  post({ headers, body }: { headers: Record<string, string>; body: Body }): Promise<PostResult> {
    if (this.signal?.aborted) return Promise.reject(this.signal.reason);
    if (this.#state !== 'ready') return Promise.reject(new Error('a place is for one POST'));
    this.#state = 'posted';
    this.ledger.posted();
    const request = { path: this.path, method: 'POST', headers, body } as const;
    return new Promise((resolve, reject) => {
      this.#onResult = resolve;
      this.#onRejected = reject;
      const connection = this.#connection ?? this.origin.connect();
      this.#attempt = new Attempt(connection, request, this, this.ledger.timeoutMs);
      this.#attempt.send();
      this.#permit?.end();
    });
  }

  release(): void {
    if (this.#state !== 'ready') return;
    this.signal?.removeEventListener('abort', this.#onAbort);
    this.#giveBack();
  }

  /** Stops reading an answer whose result is known. */
  drop(): void {
    this.#attempt?.drop();
  }

  settled(result: PostResult): void {
    this.signal?.removeEventListener('abort', this.#onAbort);
    this.#onResult(result);
    this.ledger.answered();
  }

  finished(connection: Connection, reusable: boolean): void {
    this.#state = 'over';
    this.origin.release(connection, reusable);
    this.ledger.ended(this);
  }

  #becomeReady(): void {
    this.#state = 'ready';
    this.#onGranted(this);
  }

  #giveBack(): void {
    this.#state = 'over';
    this.#permit?.end();
    // A connection that was closed in the meantime would rest for ever.
    this.origin.release(this.#connection, this.#connection?.used ?? false);
    this.ledger.givenBack(this);
  }

  readonly #onAbort = (): void => {
    switch (this.#state) {
      case 'waiting':
        this.#state = 'over';
        this.origin.leave(this);
        this.ledger.givenBack(this);
        break;
      case 'naming':
      case 'ready':
        this.#giveBack();
        break;
      case 'posted':
      case 'over': // Cut, while its result is still found out.
        this.#attempt?.drop();
        this.ledger.answered();
        break;
    }
    this.#onRejected(this.signal?.reason);
  };
}
