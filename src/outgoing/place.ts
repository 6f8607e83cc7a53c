import type { Readable } from 'node:stream';
import type { AttemptError } from './attemptError.js';
import type { Ours } from './ours.js';

/**
 * A body, sent whole or in pieces: a new stream is made each time it is sent, and `content-length` is in
 * the headers.
 */
export type Body = string | (() => Readable);

/** A connection's right at one origin, and one of the process's sockets. */
export interface Place {
  /**
   * Makes one attempt; its time begins now. Call it once.
   * Rejects only when the signal of the place aborts, with its reason; everything else is a {@link PostResult}.
   */
  post(request: { headers: Record<string, string>; body: Body }): Promise<PostResult>;
  /** Gives the place back unused; has no effect once it is posted or given back. */
  release(): void;
}

export interface PostResult {
  ok: boolean;
  status?: number;
  error?: AttemptError;
  /** Set if the failure is an own failure of this process or host, not the receiver's. */
  ours?: Ours;
  /** For logs and people: fixed words and error codes, no part of the URL, the headers or a body. */
  detail?: string;
  /** Time from the start of the attempt until its result is known. */
  milliseconds: number;
  /** `Retry-After` of a 429 or 503, at most 24 h. */
  retryAfterMs?: number;
  remoteAddress?: string;
  /** The first 1 KiB of a failed answer, see excerpt.ts. */
  responseExcerpt?: string;
}
