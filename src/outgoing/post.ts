import type { TargetPolicy } from './address.js';
import type { PostResult } from './answer.js';
import { Attempt, type Ledger, type Place } from './attempt.js';
import { Connections } from './connections.js';
import { type AttemptError, type HasRoute, hasRoute } from './failures.js';
import { type Names, systemNames } from './names.js';
import { hostOf, parseUrl, portOf } from './target.js';

export type { PostResult } from './answer.js';
export type { Place } from './attempt.js';
export type { AttemptError } from './failures.js';

interface PostRequest {
  url: string;
  client: string;
  headers: Record<string, string>;
  body: string;
  signal?: AbortSignal;
}

/**
 * Sends POSTs, each one attempt: it never follows a redirect, never reads more than 16 KiB of an answer,
 * and always ends within `timeoutMs`.
 *
 * | the receiver | ends as |
 * |---|---|
 * | answers 2xx, even if the body fails | `ok` |
 * | answers 3xx | `redirect` |
 * | answers any other status, even if the body fails | `http_status`, with an excerpt and `Retry-After` |
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
 * waits for its own resources: a place, and a permit to look up a name.
 *
 * | the service | fails with `ours` |
 * |---|---|
 * | has no file descriptor or no memory for a socket | `descriptors` |
 * | has a resolver that does not answer; checking this may take up to a second more than `timeoutMs` | `resolver` |
 * | has no route to anywhere, no interface that is up, or no local port left | `network` |
 */
export interface Sender {
  /**
   * Waits for a place: a connection's right at the origin of `url`, shared in turn among clients, one of the process's
   * sockets, and for a new connection a permit to look up its name. Resolves immediately if there is room, and for a URL that
   * cannot be posted to: its `post` says why. Rejects only when `signal` aborts, with its reason; the signal covers `post`
   * too.
   */
  place(url: string, client: string, signal?: AbortSignal): Promise<Place>;
  /** Waits for a place, then posts. */
  post(request: PostRequest): Promise<PostResult>;
  /** Returns how many posts have no result yet. */
  inFlight(): number;
  /** Returns how many wait for a place. */
  waiting(): number;
  /** Refuses new posts, waits for those that have a place or wait for one, closes all connections. */
  close(): Promise<void>;
}

export interface SenderSettings {
  policy: TargetPolicy;
  /** For one attempt: name, connection, TLS, request and answer. */
  timeoutMs: number;
  /** Connections to one origin, with idle ones; unbounded if absent. */
  connectionsPerOrigin?: number;
  /** Connections to all origins, with idle ones; unbounded if absent. */
  maxSockets?: number;
  /** Certificate authorities in PEM instead of the built-in ones. */
  ca?: string;
  /** Used instead of the system's. */
  names?: Names;
  hasRoute?: HasRoute;
}

export function createSender(settings: SenderSettings): Sender {
  return new ConnectionsSender(settings);
}

class ConnectionsSender implements Sender, Ledger {
  readonly timeoutMs: number;
  readonly connections: Connections;
  /** Those that are not over: an attempt is over once its answer is read. */
  readonly #attempts = new Set<Attempt>();
  #withoutResult = 0;
  #inFlight = 0;
  #closing: Promise<void> | undefined;
  #onQuiet: () => void = () => undefined;

  constructor(settings: SenderSettings) {
    const {
      policy,
      ca,
      names = systemNames,
      connectionsPerOrigin = Infinity,
      maxSockets = Infinity,
    } = settings;
    const guard = { policy, names, hasRoute: settings.hasRoute ?? hasRoute, ca };
    this.connections = new Connections(guard, connectionsPerOrigin, maxSockets);
    this.timeoutMs = settings.timeoutMs;
  }

  place(url: string, client: string, signal?: AbortSignal): Promise<Place> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#closing !== undefined) return refuse('connect', 'the sender is closed');
    const target = parseUrl(url);
    if (target === undefined) return refuse('protocol', 'not a URL');
    const secure = target.protocol === 'https:';
    if (!secure && !(target.protocol === 'http:' && this.connections.guard.policy.allowHttp)) {
      return refuse('blocked_address', 'the scheme is not allowed');
    }
    const origin = this.connections.of(target.origin, () => ({
      host: hostOf(target),
      port: portOf(target),
      secure,
    }));
    const attempt = new Attempt(origin, target.pathname + target.search, client, signal, this);
    this.#attempts.add(attempt);
    this.#withoutResult++;
    return attempt.wait();
  }

  async post({ url, client, headers, body, signal }: PostRequest): Promise<PostResult> {
    const place = await this.place(url, client, signal);
    return place.post({ headers, body });
  }

  inFlight(): number {
    return this.#inFlight;
  }

  waiting(): number {
    return this.connections.waiting;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  posted(): void {
    this.#inFlight++;
  }

  ended(wasPosted: boolean): void {
    this.#withoutResult--;
    if (wasPosted) this.#inFlight--;
    if (this.#withoutResult === 0) this.#onQuiet();
  }

  over(attempt: Attempt): void {
    this.#attempts.delete(attempt);
  }

  async #close(): Promise<void> {
    if (this.#withoutResult > 0) {
      await new Promise<void>((resolve) => {
        this.#onQuiet = resolve;
      });
    }
    for (const attempt of this.#attempts) attempt.end(false);
    this.connections.destroy();
  }
}

function refuse(error: AttemptError, detail: string): Promise<Place> {
  const result: PostResult = { ok: false, error, detail, milliseconds: 0 };
  return Promise.resolve({ post: () => Promise.resolve(result), release: () => undefined });
}
