import type { Context } from 'koa';
import { TooBusy } from '../delivery/accept.js';
import type { Logger } from '../log.js';
import { ResolverUnavailable } from '../outgoing/target.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { type ErrorCode, errors, oauthErrorOf } from './errors.js';
import type { Step } from './step.js';

export class ApiError extends Error {
  override name = 'ApiError';
  readonly status: number;

  /**
   * @param code of the catalogue, for programs
   * @param message for people: it goes to the caller, and nothing secret may be in it
   */
  constructor(
    readonly code: ErrorCode,
    message: string,
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

export const unreadableBody = (): ApiError => badParameter('The body cannot be read');

/**
 * Returns the error for a dependency that does not answer: whether anything happened is unknown.
 * @param cause for the log: an error, or a sentence
 */
export function unavailable(cause: unknown): ApiError {
  const message = 'The service cannot answer now: try again in 1 s';
  return new ApiError('temporarily_unavailable', message, { 'Retry-After': '1' }, cause);
}

export interface Quota {
  name: string;
  calls: number;
  windowSeconds: number;
}

/** Returns the error of a limit that is reached: every 429 says which one, and when to come again. */
export function tooMany(message: string, quota: Quota, retryAfterMs: number): ApiError {
  const fields = rateLimitFields(quota, 0, retryAfterMs);
  const seconds = secondsOf(retryAfterMs);
  const headers = { ...fields, 'Retry-After': String(seconds) };
  return new ApiError('too_many_requests', `${message}: try again in ${seconds} s`, headers);
}

/** Returns the fields of draft-ietf-httpapi-ratelimit-headers (revisions 8 to 11). */
export const rateLimitFields = ({ name, calls, windowSeconds }: Quota, left: number, untilMs: number) => ({
  'RateLimit-Policy': `"${name}";q=${calls};w=${windowSeconds}`,
  RateLimit: `"${name}";r=${left};t=${secondsOf(untilMs)}`,
});

const secondsOf = (ms: number): number => Math.max(1, Math.ceil(ms / 1000));

/**
 * Returns the body of an error's answer. Under /oauth it is that of RFC 6749, section 5.2, also for a path in another case,
 * because the caller reads the answer with an OAuth library.
 */
export function problemOf(err: ApiError, path: string, requestId: string): Record<string, string> {
  return oauthPath.test(path)
    ? { error: oauthErrorOf(err.code), error_description: err.message }
    : {
        msg: err.message,
        code: err.code,
        type: typeOf(err.code),
        title: errors[err.code].meaning,
        request_id: requestId,
      };
}

/** Returns the address of the code's explanation, which this service serves (RFC 9457, section 3.1.1). */
export const typeOf = (code: ErrorCode): string => `/docs/errors#${code}`;

const oauthPath = /^\/oauth\//i;

/** Answers every error of a request that was read. server.ts refuses those that could not be read. */
export function answerErrors(log: Logger): Step {
  return async (ctx, next) => {
    try {
      await next();
      if (ctx.status >= 400 && !ctx.body) throw unanswered(ctx.status);
    } catch (err) {
      const known = toApiError(err);
      if (!known) log.error({ err: describe(err), request_id: ctx.state.requestId }, 'unexpected error');
      if (known?.status === 503) {
        log.debug({ reason: reasonOf(known), request_id: ctx.state.requestId }, 'answered 503');
      }
      answer(ctx, known ?? new ApiError('server_error', 'Something went wrong on our side'));
    }
  };
}

function answer(ctx: Context, err: ApiError): void {
  ctx.status = err.status;
  ctx.set(err.headers);
  // Do not wait for the rest of a body that was too long.
  if (err.status === 413) ctx.set('Connection', 'close');
  ctx.body = problemOf(err, ctx.path, ctx.state.requestId);
}

/** undefined for a bug of the service. */
export function toApiError(err: unknown): ApiError | undefined {
  if (err instanceof ApiError) return err;
  if (isRedisUnavailable(err)) return unavailable(err);
  if (err instanceof ResolverUnavailable) {
    return new ApiError('resolver_unavailable', err.message, { 'Retry-After': '5' });
  }
  if (err instanceof TooBusy) return unavailable(err);
  return fromBodyParser(err);
}

/** The parsers' errors carry the raw body, so only their status is used (koa-body, raw-body, inflation). */
function fromBodyParser(err: unknown): ApiError | undefined {
  if (!(err instanceof Error)) return undefined;
  const { status, code } = err as Error & { status?: number; code?: string };
  if (status === 413) return new ApiError('body_too_long', 'The body is too long');
  if (status === 415) {
    return new ApiError('unsupported_media_type', 'The encoding of the body is not supported');
  }
  if (status === 400 || code?.startsWith('Z_') || err instanceof SyntaxError) return unreadableBody();
  return undefined;
}

function unanswered(status: number): ApiError {
  if (status === 404) return new ApiError('not_found', 'There is nothing at this address');
  // The router answers 501 for a method that no path has, such as TRACE: for a caller it is the same.
  if (status === 405 || status === 501) {
    return new ApiError('method_not_allowed', 'This method is not allowed at this path');
  }
  return new ApiError('server_error', 'The request cannot be answered');
}

/** Returns the messages of an error's causes, without the errors: a Redis error carries its command with the arguments. */
function reasonOf({ cause }: Error): string {
  if (!(cause instanceof Error)) return String(cause ?? 'a dependency does not answer');
  return cause.cause === undefined ? cause.message : `${cause.message}: ${reasonOf(cause)}`;
}

/** Never returns the error itself: a Redis error carries its command with the arguments. */
function describe(err: unknown): { type: string; message: string; stack?: string } {
  if (!(err instanceof Error)) return { type: typeof err, message: 'not an error' };
  return { type: err.name, message: err.message, stack: err.stack };
}
