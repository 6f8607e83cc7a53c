import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { AttemptFailed, attemptFailed, saysStale } from './attemptError.js';
import { Clock } from './clock.js';
import type { Connection } from './connections/connection.js';
import type { Origin } from './connections/connections.js';
import { excerptBytes, excerptOf } from './excerpt.js';
import type { Body, PostResult } from './place.js';
import { retryAfterMs } from './retryAfter.js';

/** Makes the attempt, and owns its connection. */
export interface AttemptOwner {
  readonly origin: Origin;
  /** Called when the result is known. */
  settled(result: PostResult): void;
  /** Called when nothing more is read; may come before `settled`. @param reusable as for {@link Origin.release} */
  finished(connection: Connection, reusable: boolean): void;
}

/** The most bytes of an answer that are read to use its connection again. */
const maxBodyBytes = 16 * 1024;
/** How long a failed answer may take to show its first 1 KiB once its headers are there. */
const excerptWaitMs = 1_000;

/**
 * One POST on one connection. It is settled once its result is known: with the headers of a 2xx, or the excerpt of another
 * answer. It is finished once the rest of the body has been read in the background, under the same clock.
 */
export class Attempt implements Dispatcher.DispatchHandler {
  readonly #clock: Clock;
  #excerptTimer: NodeJS.Timeout | undefined;
  #connection: Connection;

  #mayRetry = true;
  #answerBegan = false;
  #status: number | undefined;
  #retryAfterMs: number | undefined;
  #bodyBytes = 0;
  #excerpt: Buffer[] | undefined;
  #settled = false;
  #finished = false;

  constructor(
    connection: Connection,
    readonly request: Omit<Dispatcher.DispatchOptions, 'body'> & { body: Body },
    readonly owner: AttemptOwner,
    timeoutMs: number,
  ) {
    this.#connection = connection;
    this.#clock = new Clock(timeoutMs, () => this.#onTimeout());
  }

  send(): void {
    const { body } = this.request;
    this.#connection.dispatch({ ...this.request, body: typeof body === 'string' ? body : body() }, this);
  }

  /** Ends the attempt without a result, or stops reading an answer whose result is known. */
  drop(): void {
    this.#settled = true;
    clearTimeout(this.#excerptTimer);
    this.#finish(false);
  }

  onRequestStart(): void {}

  onResponseStarted(): void {
    this.#answerBegan = true;
  }

  onResponseStart(_controller: unknown, status: number, headers: IncomingHttpHeaders): void {
    if (this.#finished || status < 200) return;
    this.#status = status;
    if (status < 300) {
      this.#settle({ ok: true, status, ...this.#measured() });
      return;
    }
    if (status === 429 || status === 503)
      this.#retryAfterMs = retryAfterMs(headers['retry-after'], Date.now());
    this.#excerpt = [];
    this.#excerptTimer = setTimeout(
      () => this.#settleFailedAnswer(),
      Math.min(excerptWaitMs, this.#clock.timeoutMs),
    );
  }

  onResponseData(_controller: unknown, chunk: Buffer): void {
    if (this.#finished) return;
    this.#bodyBytes += chunk.length;
    if (this.#excerpt !== undefined && !this.#settled) {
      // A copy: the chunk is a view into the whole read buffer.
      this.#excerpt.push(Buffer.from(chunk.subarray(0, excerptBytes)));
      if (this.#bodyBytes >= excerptBytes) this.#settleFailedAnswer();
    }
    if (this.#bodyBytes > maxBodyBytes) this.#finish(false);
  }

  onResponseEnd(): void {
    if (this.#finished) return;
    if (!this.#settled) this.#settleFailedAnswer();
    this.#connection.used = true;
    this.#finish(true);
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#finished) return;
    if (this.#settled) {
      this.#finish(false);
    } else if (this.#status !== undefined) {
      this.#settleFailedAnswer();
      this.#finish(false);
    } else if (this.#mayRetry && !this.#answerBegan && this.#connection.used && saysStale(error)) {
      this.#mayRetry = false;
      this.#connection = this.owner.origin.replace(this.#connection);
      this.send();
    } else {
      this.#settleFailure(attemptFailed(error));
      this.#finish(false);
    }
  }

  #onTimeout(): void {
    if (this.#settled) {
      this.#finish(false);
    } else if (this.#status !== undefined) {
      this.#settleFailedAnswer();
      this.#finish(false);
    } else if (this.#connection.isLookingUp()) {
      void this.#settleWithoutAddress();
    } else {
      this.#settleFailure(this.#tooLate());
      this.#finish(false);
    }
  }

  /** Finds out whether one customer's name server is silent or the resolver itself, which takes up to a second. */
  async #settleWithoutAddress(): Promise<void> {
    const { to, connections } = this.owner.origin;
    const silent = connections.guard.names.isSilentFor(to.host);
    this.#finish(false);
    this.#settleFailure((await silent) ? new AttemptFailed('dns', 'no answer', 'resolver') : this.#tooLate());
  }

  #tooLate(): AttemptFailed {
    return new AttemptFailed('timeout', `no answer within ${this.#clock.timeoutMs} ms`);
  }

  #settleFailure({ error, detail, ours }: AttemptFailed): void {
    const result: PostResult = { ok: false, error, detail, ...this.#measured() };
    if (ours !== undefined) result.ours = ours;
    this.#settle(result);
  }

  #settleFailedAnswer(): void {
    const status = this.#status;
    if (this.#settled || status === undefined) return;
    const redirect = status < 400;
    const result: PostResult = {
      ok: false,
      status,
      error: redirect ? 'redirect' : 'http_status',
      detail: redirect ? `status ${status}, redirects are not followed` : `status ${status}`,
      ...this.#measured(),
    };
    if (this.#retryAfterMs !== undefined) result.retryAfterMs = this.#retryAfterMs;
    if (this.#excerpt !== undefined && this.#excerpt.length > 0)
      result.responseExcerpt = excerptOf(this.#excerpt);
    this.#excerpt = undefined;
    this.#settle(result);
  }

  #settle(result: PostResult): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#excerptTimer);
    this.owner.settled(result);
  }

  #finish(reusable: boolean): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#clock.stop();
    clearTimeout(this.#excerptTimer);
    this.owner.finished(this.#connection, reusable);
  }

  #measured(): { milliseconds: number; remoteAddress?: string } {
    const { milliseconds } = this.#clock;
    const { remoteAddress } = this.#connection;
    return remoteAddress === undefined ? { milliseconds } : { milliseconds, remoteAddress };
  }
}
