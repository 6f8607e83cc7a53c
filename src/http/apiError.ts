import { TooBusy } from '../delivery/hands.js';
import type { Logger } from '../log.js';
import { ResolverUnavailable } from '../outgoing/target.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { ChangeRefused } from '../redis/records/clients.js';
import { SecretUnreadable } from '../redis/records/secretBox.js';
import { type ErrorCode, errors, toOauthError, wordsOf } from './errors.js';
import type { Rate } from './rates.js';

export class ApiError extends Error {
  override name = 'ApiError';
  readonly status: number;

  /**
   * @param code of the catalogue, for programs
   * @param message for people: it goes to the caller, and nothing secret may be in it; by default the words of the catalogue
   */
  constructor(
    readonly code: ErrorCode,
    message = wordsOf(code),
    readonly headers: Readonly<Record<string, string>> = {},
    /** For the log only. */
    cause?: unknown,
  ) {
    super(message, { cause });
    this.status = errors[code].status;
  }
}

/** Returns the error for a wrong parameter, header or body; the message names it. */
export const badParameter = (message: string): ApiError => new ApiError('invalid_request', message);

/** Returns the error for what is understood, and not carried out as things are. */
export const refused = (message: string): ApiError => new ApiError('refused', message);

/**
 * Returns the error for a dependency that does not answer: whether anything happened is unknown.
 * @param cause for the log: an error, or a sentence
 * @param why for operators; no other caller is told
 */
export function unavailable(cause: unknown, why = ''): ApiError {
  const message = `${why}The service cannot answer now: try again in 1 s`;
  return new ApiError('temporarily_unavailable', message, { 'Retry-After': '1' }, cause);
}

export type Quota = Rate & { name: string };

/** Returns the error of a limit that is reached: every 429 names the limit, and says when to come again. */
export function tooMany(message: string, quota: Quota, retryAfterMs: number): ApiError {
  const fields = rateLimitFields(quota, 0, retryAfterMs);
  const seconds = toSeconds(retryAfterMs);
  const headers = { ...fields, 'Retry-After': String(seconds) };
  return new ApiError('too_many_requests', `${message}: try again in ${seconds} s`, headers);
}

/** Returns the fields of draft-ietf-httpapi-ratelimit-headers (revisions 8 to 11). */
export const rateLimitFields = ({ name, calls, windowSeconds }: Quota, left: number, untilMs: number) => ({
  'RateLimit-Policy': `"${name}";q=${calls};w=${windowSeconds}`,
  RateLimit: `"${name}";r=${left};t=${toSeconds(untilMs)}`,
});

const toSeconds = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));

/**
 * Returns the body of an error's answer. Under /oauth it is that of RFC 6749, section 5.2, even for a path in another case,
 * because the caller reads the answer with an OAuth library.
 */
export function presentProblem(err: ApiError, path: string, requestId: string): Record<string, string> {
  return isUnderOauth(path)
    ? { error: toOauthError(err.code), error_description: err.message }
    : {
        msg: err.message,
        code: err.code,
        // The address of the code's explanation, which this service serves (RFC 9457, section 3.1.1).
        type: `/docs/errors#${err.code}`,
        title: errors[err.code].meaning,
        request_id: requestId,
      };
}

export const isUnderOauth = (path: string): boolean => /^\/oauth\//i.test(path);

/** Returns the error as callers see it; undefined for a bug of the service. */
export function toApiError(err: unknown): ApiError | undefined {
  if (err instanceof ApiError) return err;
  // A client or an account that ended during the call: a repeat says so. A process without the key that others have should end.
  const isPassing = err instanceof TooBusy || err instanceof ChangeRefused || err instanceof SecretUnreadable;
  if (isPassing || isRedisUnavailable(err)) return unavailable(err);
  if (err instanceof ResolverUnavailable)
    return new ApiError('resolver_unavailable', err.message, { 'Retry-After': '5' }, err);
  return undefined;
}

/** Logs an error that nobody foresaw. Never itself: an error of Redis carries its command with the arguments. */
export function logUnexpected(log: Pick<Logger, 'error'>, err: unknown, about: object): void {
  const { name: type, message, stack } = err as Error;
  log.error({ err: { type, message, stack }, ...about }, 'unexpected error');
}
