import { checkPolicy, type TargetPolicy } from './address.js';
import { Attempt, type PostRequest, type PostResult } from './attempt.js';
import { Connections } from './connections.js';
import { type Lookup, resolveHost } from './resolve.js';

export type { PostRequest, PostResult } from './attempt.js';
export type { AttemptError } from './attempt-error.js';

/**
 * Sends POSTs, each one attempt: it never follows a redirect, never reads more than 16 KiB of an answer,
 * and ends within `timeoutMs` whatever the receiver does.
 *
 * | the receiver | ends as |
 * |---|---|
 * | answers 2xx, whatever becomes of the body | `ok` |
 * | answers 3xx | `redirect` |
 * | answers any other status, whatever becomes of the body | `http_status`, with an excerpt and `Retry-After` |
 * | has no name, or its name server is silent or broken | `dns` (`timeout` when the attempt's time ends first) |
 * | has any address that is not public, or is the service itself; `http` where it is not allowed | `blocked_address` |
 * | refuses, resets or cannot be reached while connecting | `connect` |
 * | shows a certificate that is wrong, expired, self-signed or for another name; breaks off the handshake | `tls` |
 * | accepts and keeps silent, stalls in TLS, sends a byte a second or `103` for ever | `timeout` |
 * | closes or resets before the headers are complete | `protocol` |
 * | sends what is not HTTP/1, more than 16 KiB of headers, an unasked `100` or `101` | `protocol` |
 *
 * A kept connection that turns out to be closed before a byte of the answer came is replaced once, at
 * once, within the same attempt.
 */
export interface Sender {
  /** Rejects only when `signal` aborts, with its reason; everything else is a {@link PostResult}. */
  post(req: PostRequest): Promise<PostResult>;
  /** Posts that have no result yet. */
  inFlight(): number;
  /** Takes no more posts, waits for those in flight, closes all connections. */
  close(): Promise<void>;
}

/**
 * @param opts.timeoutMs for a whole attempt: name, connection, TLS, request and answer
 * @param opts.maxOrigins of how many origins idle connections are kept (1,000)
 * @param opts.connectionsPerOrigin how many at once; what is over waits, within its `timeoutMs` (128)
 * @param opts.ca certificate authorities in PEM instead of the built-in ones
 * @throws Error when a range of the policy is no CIDR
 */
export function createSender(opts: {
  policy: TargetPolicy;
  timeoutMs: number;
  maxOrigins?: number;
  connectionsPerOrigin?: number;
  lookup?: Lookup;
  ca?: string;
}): Sender {
  checkPolicy(opts.policy);
  const { policy, timeoutMs, lookup = resolveHost } = opts;
  const guard = opts.ca === undefined ? { policy, lookup } : { policy, lookup, ca: opts.ca };
  const connections = new Connections(guard, opts.maxOrigins ?? 1_000, opts.connectionsPerOrigin ?? 128);
  const running = new Set<Attempt>();
  const unread = new Set<Attempt>();
  let closed = false;

  return {
    post(req) {
      if (closed) return Promise.resolve(refusal);
      const attempt = new Attempt(req, connections, timeoutMs, {
        settled: () => {
          running.delete(attempt);
          unread.add(attempt);
        },
        finished: () => unread.delete(attempt),
      });
      running.add(attempt);
      return attempt.run();
    },
    inFlight: () => running.size,
    async close() {
      closed = true;
      await Promise.allSettled([...running].map((attempt) => attempt.result));
      for (const attempt of unread) attempt.drop();
      connections.destroy();
    },
  };
}

const refusal: PostResult = { ok: false, error: 'connect', detail: 'the sender is closed', milliseconds: 0 };
