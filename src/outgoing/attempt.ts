import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { type AttemptError, AttemptFailed } from './attempt-error.js';
import type { Connection } from './connection.js';
import type { Connections, Holder, OriginConnections } from './connections.js';
import { excerptBytes, excerptOf } from './excerpt.js';
import { dnsCode } from './resolve.js';
import { retryAfterMs } from './retry-after.js';
import { hostOf, portOf } from './target.js';

export interface PostRequest {
  url: string;
  headers: Record<string, string>;
  body: string;
  signal?: AbortSignal;
}

export interface PostResult {
  ok: boolean;
  status?: number;
  error?: AttemptError;
  /** For logs and people: fixed words and error codes, nothing of the URL, the headers or a body. */
  detail?: string;
  /** From the start of the attempt until its result is known. */
  milliseconds: number;
  /** On 429 and 503, at most 24 h. */
  retryAfterMs?: number;
  remoteAddress?: string;
  /** The first 1 KiB of a failed answer, see excerpt.ts. */
  responseExcerpt?: string;
}

/** What is read of an answer so that its connection can be used again. */
const maxBodyBytes = 16 * 1024;
/** How long a failed answer may take to show its first 1 KiB once its headers are there. */
const excerptWaitMs = 1_000;

/**
 * One POST. Its result is known (settled) when the headers of a 2xx are there, or the excerpt of another
 * answer; the rest of the body is read in the background under the same timer, then it is finished.
 */
export class Attempt implements Holder, Dispatcher.DispatchHandler {
  readonly result: Promise<PostResult>;
  #resolve: (result: PostResult) => void = () => undefined;
  #reject: (reason: unknown) => void = () => undefined;

  readonly #startedAtMs = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #excerptTimer: NodeJS.Timeout | undefined;
  #options: Dispatcher.DispatchOptions | undefined;
  #origin: OriginConnections | undefined;
  #connection: Connection | undefined;

  #mayRetry = true;
  #answerBegan = false;
  #status: number | undefined;
  #retryAfterMs: number | undefined;
  #bodyBytes = 0;
  #excerpt: Buffer[] | undefined;
  #settled = false;
  #finished = false;

  constructor(
    readonly request: PostRequest,
    readonly connections: Connections,
    readonly timeoutMs: number,
    readonly on: { settled(): void; finished(): void },
  ) {
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  run(): Promise<PostResult> {
    const { url, headers, body, signal } = this.request;
    if (signal?.aborted) {
      this.#onAbort();
      return this.result;
    }
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    const target = URL.canParse(url) ? new URL(url) : undefined;
    if (target === undefined) return this.#refuse('protocol', 'not a URL');
    const secure = target.protocol === 'https:';
    if (!secure && !(target.protocol === 'http:' && this.connections.guard.policy.allowHttp)) {
      return this.#refuse('blocked_address', 'the scheme is not allowed');
    }
    this.#timer = setTimeout(() => this.#onTimeout(), this.timeoutMs);
    this.#options = { path: target.pathname + target.search, method: 'POST', headers, body };
    this.#origin = this.connections.of(target.origin, () => ({
      host: hostOf(target),
      port: portOf(target),
      secure,
    }));
    this.#origin.acquire(this);
    return this.result;
  }

  /** Stops reading an answer whose result is known. */
  drop(): void {
    this.#finish(false);
  }

  start(connection: Connection): void {
    if (this.#finished) {
      // Given up in the moment of its turn. A connection that never opened would rest for ever.
      this.#origin?.release(connection, connection.used);
      return;
    }
    this.#connection = connection;
    if (this.#options !== undefined) connection.dispatch(this.#options, this);
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
      Math.min(excerptWaitMs, this.timeoutMs),
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
    if (this.#connection !== undefined) this.#connection.used = true;
    this.#finish(true);
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#finished) return;
    if (this.#settled) {
      this.#finish(false);
    } else if (this.#status !== undefined) {
      this.#settleFailedAnswer();
      this.#finish(false);
    } else if (this.#foundStale(error)) {
      this.#retryOnNewConnection();
    } else {
      const failed = classify(error);
      this.#settle({ ok: false, error: failed.error, detail: failed.detail, ...this.#measured() });
      this.#finish(false);
    }
  }

  /** The server closed a kept connection while this request was on its way to it. */
  #foundStale(error: Error): boolean {
    if (!this.#mayRetry || this.#answerBegan || this.#connection?.used !== true) return false;
    return staleCodes.has(dnsCode(error) ?? '');
  }

  #retryOnNewConnection(): void {
    this.#mayRetry = false;
    if (this.#connection === undefined || this.#origin === undefined) return;
    this.start(this.#origin.replace(this.#connection));
  }

  #onTimeout(): void {
    if (this.#settled) {
      this.#finish(false);
    } else if (this.#status !== undefined) {
      this.#settleFailedAnswer();
      this.#finish(false);
    } else {
      const waited = this.#connection === undefined;
      const detail = waited ? 'no free connection to the origin' : `no answer within ${this.timeoutMs} ms`;
      this.#settle({ ok: false, error: 'timeout', detail, ...this.#measured() });
      this.#finish(false);
    }
  }

  readonly #onAbort = (): void => {
    if (this.#settled) return;
    this.#settled = true;
    this.#reject(this.request.signal?.reason);
    this.on.settled();
    this.#finish(false);
  };

  #refuse(error: AttemptError, detail: string): Promise<PostResult> {
    this.#settle({ ok: false, error, detail, ...this.#measured() });
    this.#finish(false);
    return this.result;
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
    this.#settled = true;
    this.request.signal?.removeEventListener('abort', this.#onAbort);
    clearTimeout(this.#excerptTimer);
    this.#resolve(result);
    this.on.settled();
  }

  #finish(reusable: boolean): void {
    if (this.#finished) return;
    this.#finished = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#excerptTimer);
    if (this.#connection !== undefined) this.#origin?.release(this.#connection, reusable);
    else this.#origin?.leave(this);
    this.on.finished();
  }

  #measured(): { milliseconds: number; remoteAddress?: string } {
    const milliseconds = Math.round(performance.now() - this.#startedAtMs);
    const remoteAddress = this.#connection?.remoteAddress;
    return remoteAddress === undefined ? { milliseconds } : { milliseconds, remoteAddress };
  }
}

const staleCodes = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

function classify(error: Error): AttemptFailed {
  if (error instanceof AttemptFailed) return error;
  const code = dnsCode(error) ?? 'unknown error';
  // With TLS 1.3 a server judges the client only after the client's handshake is complete.
  if (code.startsWith('ERR_SSL_') || code === 'EPROTO') return new AttemptFailed('tls', code);
  if (code.startsWith('UND_ERR_INVALID')) return new AttemptFailed('protocol', 'the request cannot be sent');
  if (staleCodes.has(code)) return new AttemptFailed('protocol', `closed without an answer (${code})`);
  return new AttemptFailed('protocol', `not a valid HTTP answer (${code})`);
}
