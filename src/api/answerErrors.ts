import type { Context } from 'koa';
import { TooBusy } from '../delivery/claim.js';
import type { Logger } from '../log.js';
import { ResolverUnavailable } from '../outgoing/target.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { ApiError, problemOf, unavailable, unreadableBody } from './apiError.js';
import type { Step } from './composeSteps.js';

/** Answers every error of a request that was read. See refuseBytes.ts for requests that could not be read. */
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
