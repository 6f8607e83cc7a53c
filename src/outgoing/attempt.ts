import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { Answer, excerptBytes, type PostResult } from './answer.js';
import type { Connection } from './connection.js';
import type { Connections } from './connections.js';
import { AttemptFailed, attemptFailed, saysStale } from './failures.js';

/** A connection's right at one origin, and one of the process's sockets. */
export type Place = Pick<Attempt, 'post' | 'release'>;

interface Request {
  headers: Record<string, string>;
  /** Sent whole or in pieces: a new stream is made each time it is sent, and `content-length` is in the headers. */
  body: string | (() => Readable);
}

/** The sender of attempts, which waits for them when it closes. */
export interface Ledger {
  readonly connections: Connections;
  readonly timeoutMs: number;
  /** Posts without a result. */
  posting: number;
  /** Called once, when the result is known or no longer wanted, or the place was given back. */
  finish(): void;
}

/** The most bytes of an answer that are read to use its connection again. */
const maxBodyBytes = 16 * 1024;
/** How long a failed answer may take to end once its headers are there. */
const failedBodyMs = 1_000;

/**
 * One POST on one connection. Its result is known with the headers of a 2xx, or the excerpt of another answer. It is over
 * once the rest of the body has been read in the background, within the same time. The signal covers it until the result.
 */
export class Attempt implements Dispatcher.DispatchHandler {
  #state: 'ready' | 'posted' | 'over' = 'ready';
  #request: Request = { headers: {}, body: '' };
  #startedAtMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #answerBegan = false;
  #answer: Answer | undefined;
  #resolve: (result: PostResult) => void = () => undefined;
  #reject: (reason: unknown) => void = () => undefined;

  constructor(
    readonly connection: Connection,
    readonly path: string,
    readonly signal: AbortSignal | undefined,
    readonly ledger: Ledger,
  ) {
    signal?.addEventListener('abort', this.#onAbort);
    if (signal?.aborted) this.release();
  }

  /**
   * Makes one attempt; its time begins now. Call it once.
   * Rejects only when the signal of the place aborts, with its reason; everything else is a {@link PostResult}.
   */
  async post(request: Request): Promise<PostResult> {
    this.signal?.throwIfAborted();
    if (this.#state !== 'ready') throw new Error('a place is for one POST');
    this.#state = 'posted';
    this.#request = request;
    this.#startedAtMs = performance.now();
    this.ledger.posting++;
    try {
      return await new Promise((resolve, reject) => {
        this.#resolve = resolve;
        this.#reject = reject;
        this.#startTimer(this.ledger.timeoutMs);
        this.#send();
      });
    } finally {
      this.ledger.posting--;
      this.#finish();
    }
  }

  /** Gives the place back unused; has no effect once it is posted or given back. */
  release(): void {
    if (this.#state !== 'ready') return;
    // A connection that was closed in the meantime would rest for ever.
    this.#end(this.connection.used);
    this.#finish();
  }

  onRequestStart(): void {}

  onResponseStarted(): void {
    this.#answerBegan = true;
  }

  onResponseStart(_controller: unknown, status: number, headers: IncomingHttpHeaders): void {
    if (this.#state === 'over' || status < 200) return;
    this.#answer = new Answer(status, headers);
    if (this.#answer.isOk) this.#settle(this.#answer.result());
    else this.#startTimer(Math.min(failedBodyMs, this.ledger.timeoutMs - this.#elapsedMs()));
  }

  onResponseData(_controller: unknown, chunk: Buffer): void {
    const answer = this.#answer;
    if (this.#state === 'over' || answer === undefined) return;
    answer.add(chunk);
    if (answer.bodyBytes >= excerptBytes) this.#settle(answer.result());
    if (answer.bodyBytes > maxBodyBytes) this.#end(false);
  }

  onResponseEnd(): void {
    if (this.#state === 'over' || this.#answer === undefined) return;
    this.#settle(this.#answer.result());
    this.connection.used = true;
    this.#end(true);
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#state === 'over') return;
    const isStale = !this.#answerBegan && this.connection.used && saysStale(error);
    if (!isStale) this.#fail(attemptFailed(error));
    else {
      this.connection.used = false;
      this.#send();
    }
  }

  async #onTimeout(): Promise<void> {
    const late = new AttemptFailed('timeout');
    if (!this.connection.isLookingUp) {
      this.#fail(late);
      return;
    }
    // Either one customer's name server is silent or the resolver itself; finding out takes up to a second.
    const isSilent = this.ledger.connections.guard.names.isResolverSilent(this.#startedAtMs);
    this.#end(false);
    this.#fail((await isSilent) ? new AttemptFailed('dns', 'resolver') : late);
  }

  #startTimer(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#onTimeout(), ms);
  }

  #send(): void {
    const { headers, body } = this.#request;
    this.connection.dispatch(
      { path: this.path, method: 'POST', headers, body: typeof body === 'string' ? body : body() },
      this,
    );
  }

  /** Ends the attempt before the end of its answer, or without one. */
  #fail({ error, ours }: AttemptFailed): void {
    this.#settle(this.#answer?.result() ?? { ok: false, error, ...(ours && { ours }) });
    this.#end(false);
  }

  /** Gives the result, if there is none yet. */
  #settle(result: Omit<PostResult, 'milliseconds' | 'remoteAddress'>): void {
    const { remoteAddress } = this.connection;
    const milliseconds = Math.round(this.#elapsedMs());
    this.#resolve({ ...result, milliseconds, ...(remoteAddress !== undefined && { remoteAddress }) });
  }

  #elapsedMs(): number {
    return performance.now() - this.#startedAtMs;
  }

  /** Gives the connection back; nothing more of an answer is read. */
  #end(isReusable: boolean): void {
    this.#state = 'over';
    clearTimeout(this.#timer);
    this.ledger.connections.release(this.connection, isReusable);
  }

  #finish(): void {
    this.signal?.removeEventListener('abort', this.#onAbort);
    this.ledger.finish();
  }

  readonly #onAbort = (): void => {
    this.release();
    this.#reject(this.signal?.reason);
    if (this.#state === 'posted') this.#end(false);
  };
}
