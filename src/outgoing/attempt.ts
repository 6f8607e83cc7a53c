import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { Answer, excerptBytes, type PostResult } from './answer.js';
import type { Connection } from './connection.js';
import type { Connections, Origin, Waiter } from './connections.js';
import { AttemptFailed, attemptFailed, saysStale } from './failures.js';

/** A connection's right at one origin, and one of the process's sockets. */
export type Place = Pick<Attempt, 'post' | 'release'>;

interface Request {
  headers: Record<string, string>;
  /** Sent whole or in pieces: a new stream is made each time it is sent, and `content-length` is in the headers. */
  body: string | (() => Readable);
}

const noRequest: Request = { headers: {}, body: '' };

/** The sender of attempts, which waits for them when it closes. */
export interface Ledger {
  readonly connections: Connections;
  readonly timeoutMs: number;
  posted(): void;
  /** The result is known or no longer wanted, or the place was given back. */
  ended(wasPosted: boolean): void;
  /** Nothing more is read. */
  over(attempt: Attempt): void;
}

/** The most bytes of an answer that are read to use its connection again. */
const maxBodyBytes = 16 * 1024;
/** How long a failed answer may take to show its first 1 KiB once its headers are there. */
const excerptWaitMs = 1_000;

/**
 * One POST on one connection, from the wait for its place: waiting, naming (granted without a connection, it waits for a
 * permit to look up the name), ready, posted, over. It is settled once its result is known: with the headers of a 2xx, or the
 * excerpt of another answer. It is over once the rest of the body has been read in the background, within the same time. The
 * signal covers all of it until the result.
 */
export class Attempt implements Waiter, Dispatcher.DispatchHandler {
  #state: 'waiting' | 'naming' | 'ready' | 'posted' | 'over' = 'waiting';
  #isSettled = false;
  #connection: Connection | undefined;
  #endPermit: () => void = () => undefined;
  #onGranted: (place: Place) => void = () => undefined;
  #onResult: (result: PostResult) => void = () => undefined;
  #onRejected: (reason: unknown) => void = () => undefined;

  #request: Request = noRequest;
  #startedAtMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #mayReplace = true;
  #answerBegan = false;
  #answer: Answer | undefined;
  #excerptTimer: NodeJS.Timeout | undefined;

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
    return new Promise((resolve, reject) => {
      this.#onGranted = resolve;
      this.#onRejected = reject;
      this.ledger.connections.acquire(this);
    });
  }

  granted(connection: Connection | undefined): void {
    this.#connection = connection;
    if (connection !== undefined || isIP(this.origin.host) !== 0) {
      this.#becomeReady();
      return;
    }
    this.#state = 'naming';
    const { connections } = this.ledger;
    connections.waiting++;
    connections.guard.names.takePermit(this.origin.host, (end) => {
      connections.waiting--;
      this.#endPermit = end;
      if (this.#state === 'naming') this.#becomeReady();
      else end();
    });
  }

  /**
   * Makes one attempt; its time begins now. Call it once.
   * Rejects only when the signal of the place aborts, with its reason; everything else is a {@link PostResult}.
   */
  post(request: Request): Promise<PostResult> {
    if (this.signal?.aborted) return Promise.reject(this.signal.reason);
    if (this.#state !== 'ready') return Promise.reject(new Error('a place is for one POST'));
    this.#state = 'posted';
    this.ledger.posted();
    this.#request = request;
    return new Promise((resolve, reject) => {
      this.#onResult = resolve;
      this.#onRejected = reject;
      this.#startedAtMs = performance.now();
      this.#timer = setTimeout(() => this.#onTimeout(), this.ledger.timeoutMs);
      this.#send(this.#connection ?? this.ledger.connections.connect(this.origin));
      this.#endPermit();
    });
  }

  /** Gives the place back unused; has no effect once it is posted or given back. */
  release(): void {
    if (this.#state !== 'ready') return;
    this.signal?.removeEventListener('abort', this.#onAbort);
    this.#giveBack();
  }

  onRequestStart(): void {}

  onResponseStarted(): void {
    this.#answerBegan = true;
  }

  onResponseStart(_controller: unknown, status: number, headers: IncomingHttpHeaders): void {
    if (this.#state === 'over' || status < 200) return;
    this.#answer = new Answer(status, headers);
    if (this.#answer.isOk) this.#settle({ ok: true, status, ...this.#measured() });
    else {
      const waitMs = Math.min(excerptWaitMs, this.ledger.timeoutMs);
      this.#excerptTimer = setTimeout(() => this.#settleFailedAnswer(), waitMs);
    }
  }

  onResponseData(_controller: unknown, chunk: Buffer): void {
    const answer = this.#answer;
    if (this.#state === 'over' || answer === undefined) return;
    answer.add(chunk);
    if (answer.bodyBytes >= excerptBytes) this.#settleFailedAnswer();
    if (answer.bodyBytes > maxBodyBytes) this.end(false);
  }

  onResponseEnd(): void {
    if (this.#state === 'over') return;
    this.#settleFailedAnswer();
    if (this.#connection !== undefined) this.#connection.used = true;
    this.end(true);
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#state === 'over') return;
    const isStale = !this.#answerBegan && this.#connection?.used && saysStale(error);
    if (this.#mayReplace && isStale) {
      this.#mayReplace = false;
      this.#connection?.destroy();
      this.#send(this.ledger.connections.connect(this.origin));
    } else this.#cut(() => attemptFailed(error));
  }

  #onTimeout(): void {
    if (this.#answer === undefined && this.#connection?.isLookingUp()) void this.#settleWithoutAddress();
    else this.#cut(() => this.#tooLate());
  }

  #becomeReady(): void {
    this.#state = 'ready';
    this.#onGranted(this);
  }

  #send(connection: Connection): void {
    const { path } = this;
    const { headers, body } = this.#request;
    this.#connection = connection;
    connection.dispatch(
      { path, method: 'POST', headers, body: typeof body === 'string' ? body : body() },
      this,
    );
  }

  /** Ends the attempt before the end of its answer. @param why it failed, if no answer came */
  #cut(why: () => AttemptFailed): void {
    if (this.#answer === undefined) this.#settleFailure(why(), this.#measured());
    else this.#settleFailedAnswer();
    this.end(false);
  }

  /** Finds out whether one customer's name server is silent or the resolver itself, which takes up to a second. */
  async #settleWithoutAddress(): Promise<void> {
    const measured = this.#measured();
    const silent = this.ledger.connections.guard.names.isSilentFor(this.origin.host);
    this.end(false);
    this.#settleFailure(
      (await silent) ? new AttemptFailed('dns', 'no answer', 'resolver') : this.#tooLate(),
      measured,
    );
  }

  #tooLate(): AttemptFailed {
    return new AttemptFailed('timeout', `no answer within ${this.ledger.timeoutMs} ms`);
  }

  #settleFailure({ error, detail, ours }: AttemptFailed, measured: Measured): void {
    this.#settle({ ok: false, error, detail, ...(ours && { ours }), ...measured });
  }

  /** Settles with an answer that is no 2xx, and what has come of its body. */
  #settleFailedAnswer(): void {
    if (!this.#isSettled && this.#answer !== undefined)
      this.#settle({ ...this.#answer.failure(), ...this.#measured() });
  }

  #settle(result: PostResult): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    clearTimeout(this.#excerptTimer);
    this.signal?.removeEventListener('abort', this.#onAbort);
    this.#onResult(result);
    this.ledger.ended(true);
  }

  /** Gives the connection back; nothing more of an answer is read. */
  end(isReusable: boolean): void {
    this.#state = 'over';
    clearTimeout(this.#timer);
    clearTimeout(this.#excerptTimer);
    this.ledger.connections.release(this.origin, this.#connection, isReusable);
    this.ledger.over(this);
  }

  #giveBack(): void {
    this.#endPermit();
    // A connection that was closed in the meantime would rest for ever.
    this.end(this.#connection?.used ?? false);
    this.ledger.ended(false);
  }

  readonly #onAbort = (): void => {
    switch (this.#state) {
      case 'waiting':
        this.#state = 'over';
        this.ledger.connections.leave(this);
        this.ledger.over(this);
        this.ledger.ended(false);
        break;
      case 'naming':
      case 'ready':
        this.#giveBack();
        break;
      case 'posted':
      case 'over': // Cut, while its result is still found out.
        this.#isSettled = true;
        if (this.#state === 'posted') this.end(false);
        this.ledger.ended(true);
        break;
    }
    this.#onRejected(this.signal?.reason);
  };

  #measured(): Measured {
    const milliseconds = Math.round(performance.now() - this.#startedAtMs);
    const remoteAddress = this.#connection?.remoteAddress;
    return remoteAddress === undefined ? { milliseconds } : { milliseconds, remoteAddress };
  }
}

type Measured = Pick<PostResult, 'milliseconds' | 'remoteAddress'>;
