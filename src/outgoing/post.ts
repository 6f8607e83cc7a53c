import type { TargetPolicy } from './address.js';
import type { PostResult } from './answer.js';
import { Attempt, type Ledger, type Place } from './attempt.js';
import type { Guard } from './connection.js';
import { type ConnectionBounds, Connections } from './connections.js';
import { type AttemptError, hasRoute } from './failures.js';
import { systemNames } from './names.js';
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
 * waits for its own resources: a place, and the right to look up a name.
 *
 * | the service | fails with `ours` |
 * |---|---|
 * | has no file descriptor or no memory for a socket | `descriptors` |
 * | has a resolver that does not answer; checking this may take up to a second more than `timeoutMs` | `resolver` |
 * | has no route to anywhere, no interface that is up, or no local port left | `network` |
 */
export type Sender = ReturnType<typeof createSender>;

export interface SenderSettings extends Partial<Guard & ConnectionBounds> {
  policy: TargetPolicy;
  /** For one attempt: name, connection, TLS, request and answer. */
  timeoutMs: number;
}

export function createSender(settings: SenderSettings) {
  const { policy, timeoutMs, connectionsPerOrigin = Infinity, maxSockets = Infinity } = settings;
  const connections = new Connections(
    { ...settings, names: settings.names ?? systemNames, hasRoute: settings.hasRoute ?? hasRoute },
    { connectionsPerOrigin, maxSockets, maxLookups: settings.maxLookups ?? 256 },
  );
  /** Places that are waited for or held, and posts without a result. */
  let unfinished = 0;
  let closing: Promise<void> | undefined;
  let onQuiet = (): void => undefined;
  const finish = (): void => {
    unfinished--;
    if (unfinished === 0) onQuiet();
  };
  const ledger: Ledger = { connections, timeoutMs, posting: 0, finish };

  /**
   * Waits for a place: a connection's right at the origin of `url`, shared in turn among clients, one of the process's
   * sockets, and for a new connection the right to look up its name. Resolves immediately if there is room, and for a URL that
   * cannot be posted to: its `post` says why. Rejects only when `signal` aborts, with its reason; the signal covers `post`
   * too.
   */
  async function place(url: string, client: string, signal?: AbortSignal): Promise<Place> {
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
      return new Attempt(connection, target.pathname + target.search, signal, ledger);
    } catch (error) {
      finish();
      throw error;
    }
  }

  return {
    place,
    /** Waits for a place, then posts. */
    post: async ({ url, client, headers, body, signal }: PostRequest): Promise<PostResult> =>
      (await place(url, client, signal)).post({ headers, body }),
    /** Returns how many posts have no result yet. */
    inFlight: () => ledger.posting,
    /** Returns how many wait for a place. */
    waiting: () => connections.waiting,
    /** Refuses new posts, waits for those that have a place or wait for one, closes all connections. */
    close(): Promise<void> {
      closing ??= new Promise<void>((resolve) => {
        onQuiet = resolve;
      }).then(() => connections.destroy());
      if (unfinished === 0) onQuiet();
      return closing;
    },
  };
}

function refuse(error: AttemptError): Place {
  return { post: async () => ({ ok: false, error, milliseconds: 0 }), release: () => undefined };
}
