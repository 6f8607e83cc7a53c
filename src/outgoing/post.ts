import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { TargetPolicy } from './address.js';
import { Answer, excerptBytes, type PostResult } from './answer.js';
import type { Connection, Guard } from './connection.js';
import { type ConnectionBounds, Connections } from './connections.js';
import { type AttemptError, AttemptFailed, attemptFailed, hasRoute, saysStale } from './failures.js';
import { systemNames } from './names.js';
import { hostOf, parseUrl, portOf } from './target.js';

export type { PostResult } from './answer.js';

/** The right to use one connection to one origin, and one of the process's sockets. */
export type Permit = Pick<Attempt, 'post' | 'release'>;

interface Content {
  headers: Record<string, string>;
  /** Sent whole or in pieces: a new stream is made each time it is sent, and `content-length` is in the headers. */
  body: string | (() => Readable);
}

interface PostRequest extends Content {
  url: string;
  client: string;
  signal?: AbortSignal;
}

export type Sender = ReturnType<typeof createSender>;

export interface SenderSettings extends Partial<Guard & ConnectionBounds> {
  policy: TargetPolicy;
  /** For one attempt: name, connection, TLS, request and answer. */
  timeoutMs: number;
}

/**
 * Sends POSTs, each one attempt: it never follows a redirect, never reads more than 16 KiB of an answer,
 * nor for more than a second after its headers, and always ends within `timeoutMs`.
 *
 * | the receiver | ends as |
 * |---|---|
 * | answers 2xx, even if the body fails or does not end | `ok` |
 * | answers 3xx | `redirect` |
 * | answers any other status, even if the body fails or does not end | `http_status`, with an excerpt and `Retry-After` |
 * | has no name, or its name server is silent or broken | `dns` (`timeout` if the attempt's time ends first) |
 * | has any address that is not public, or is the service itself; `http` if it is not allowed | `blocked_address` |
 * | refuses, resets or cannot be reached while connecting | `connect` |
 * | shows a certificate that is wrong, expired, self-signed or for another name; breaks off the handshake | `tls` |
 * | accepts and keeps silent, stalls in TLS, sends a byte a second or `103` for ever | `timeout` |
 * | closes or resets before the headers are complete | `protocol` |
 * | sends anything other than HTTP/1, more than 16 KiB of headers, an unasked `100` or `101` | `protocol` |
 *
 * A kept connection that turns out to be closed before a byte of the answer arrived is replaced once,
 * within the same attempt.
 *
 * The time of an attempt covers the name, the connection, TLS and the receiver. Before it begins, the service
 * waits for its own resources: a permit, and the right to look up a name.
 *
 * | the service | fails with `ours` |
 * |---|---|
 * | has no file descriptor or no memory for a socket | `descriptors` |
 * | has a resolver that does not answer; checking this may take up to a second more than `timeoutMs` | `resolver` |
 * | has no route to anywhere, no interface that is up, or no local port left | `network` |
 */
export function createSender(settings: SenderSettings) {
  const { policy, timeoutMs, connectionsPerOrigin = Infinity, maxSockets = Infinity } = settings;
  const connections = new Connections(
    { ...settings, names: settings.names ?? systemNames, hasRoute: settings.hasRoute ?? hasRoute },
    { connectionsPerOrigin, maxSockets, maxLookups: settings.maxLookups ?? 256 },
  );
  /** Permits that are waited for or given out, and posts without a result. */
  let unfinished = 0;
  let closing: Promise<void> | undefined;
  let onQuiet = (): void => undefined;
  const finish = (): void => {
    unfinished--;
    if (unfinished === 0) onQuiet();
  };
  const shared: Shared = { connections, timeoutMs, posting: 0, finish };

  /**
   * Waits for a permit: for one of the connections to the origin of `url`, shared in turn among clients, one of the process's
   * sockets, and for a new connection the right to look up its name. Resolves immediately if there is room, and for a URL that
   * cannot be posted to: its `post` says why. Rejects only when `signal` aborts, with its reason; the signal covers `post`
   * too.
   */
  async function permit(url: string, client: string, signal?: AbortSignal): Promise<Permit> {
    signal?.throwIfAborted();
    if (closing !== undefined) return refuse('connect');
    const target = parseUrl(url);
    if (target === undefined) return refuse('protocol');
    const secure = target.protocol === 'https:';
    if (!secure && !(target.protocol === 'http:' && policy.allowHttp)) return refuse('blocked_address');
    unfinished++;
    const to = { name: target.origin, host: hostOf(target), port: portOf(target), secure };
    try {
      const connection = await connections.acquire(to, client, signal);
      return new Attempt(connection, target.pathname + target.search, signal, shared);
    } catch (error) {
      finish();
      throw error;
    }
  }

  return {
    permit,
    /** Waits for a permit, then posts. */
    post: async ({ url, client, headers, body, signal }: PostRequest): Promise<PostResult> =>
      (await permit(url, client, signal)).post({ headers, body }),
    /** Returns how many posts have no result yet. */
    inFlight: () => shared.posting,
    /** Returns how many wait for a permit. */
    waiting: () => connections.waiting,
    /** Refuses new posts, waits for those that have a permit or wait for one, closes all connections. */
    close(): Promise<void> {
      closing ??= new Promise<void>((resolve) => {
        onQuiet = resolve;
      }).then(() => connections.destroy());
      if (unfinished === 0) onQuiet();
      return closing;
    },
  };
}

function refuse(error: AttemptError): Permit {
  return { post: async () => ({ ok: false, error, milliseconds: 0 }), release: () => undefined };
}

interface Shared {
  connections: Connections;
  timeoutMs: number;
  /** Posts without a result. */
  posting: number;
  /** Called once, when the result is known or no longer wanted, or the permit was given back. */
  finish(): void;
}

/** The most bytes of an answer that are read to use its connection again. */
const maxBodyBytes = 16 * 1024;
/** How long a body may take once the headers are there. Its socket is taken meanwhile, although a 2xx is already settled. */
const bodyMs = 1_000;

/**
 * One POST on one connection. Its result is known with the headers of a 2xx, or the excerpt of another answer. The attempt is
 * over once the rest of the body has been read in the background, for a second at most. The signal covers it until the result.
 */
class Attempt implements Dispatcher.DispatchHandler {
  #state: 'ready' | 'posted' | 'over' = 'ready';
  #content: Content = { headers: {}, body: '' };
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
    readonly shared: Shared,
  ) {
    signal?.addEventListener('abort', this.#onAbort);
    if (signal?.aborted) this.release();
  }

  /**
   * Makes one attempt; its time begins now. Call it once.
   * Rejects only when the signal of the permit aborts, with its reason; everything else is a {@link PostResult}.
   */
  async post(content: Content): Promise<PostResult> {
    this.signal?.throwIfAborted();
    if (this.#state !== 'ready') throw new Error('a permit is for one POST');
    this.#state = 'posted';
    this.#content = content;
    this.#startedAtMs = performance.now();
    this.shared.posting++;
    try {
      return await new Promise((resolve, reject) => {
        this.#resolve = resolve;
        this.#reject = reject;
        this.#startTimer(this.shared.timeoutMs);
        this.#send();
      });
    } finally {
      this.shared.posting--;
      this.#finish();
    }
  }

  /** Gives the permit back unused; has no effect once it is used or given back. */
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
    this.#startTimer(Math.min(bodyMs, this.shared.timeoutMs - this.#elapsedMs()));
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
    const isSilent = this.shared.connections.guard.names.isResolverSilent(this.#startedAtMs);
    this.#end(false);
    this.#fail((await isSilent) ? new AttemptFailed('dns', 'resolver') : late);
  }

  #startTimer(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#onTimeout(), ms);
  }

  #send(): void {
    const { headers, body } = this.#content;
    this.connection.dispatch(
      { path: this.path, method: 'POST', headers, body: typeof body === 'string' ? body : body() },
      this,
    );
  }

  /** Ends the attempt before the end of its answer, or without an answer. */
  #fail({ error, ours }: AttemptFailed): void {
    this.#settle(this.#answer?.result() ?? { ok: false, error, ours });
    this.#end(false);
  }

  /** Gives the result, if there is none yet. */
  #settle(result: Omit<PostResult, 'milliseconds' | 'remoteAddress'>): void {
    const { remoteAddress } = this.connection;
    this.#resolve({ ...result, milliseconds: Math.round(this.#elapsedMs()), remoteAddress });
  }

  #elapsedMs(): number {
    return performance.now() - this.#startedAtMs;
  }

  /** Gives the connection back; nothing more of an answer is read. */
  #end(isReusable: boolean): void {
    this.#state = 'over';
    clearTimeout(this.#timer);
    this.shared.connections.release(this.connection, isReusable);
  }

  #finish(): void {
    this.signal?.removeEventListener('abort', this.#onAbort);
    this.shared.finish();
  }

  readonly #onAbort = (): void => {
    this.release();
    this.#reject(this.signal?.reason);
    if (this.#state === 'posted') this.#end(false);
  };
}
