import { type ErrorCode, oauthErrorOf, statusOf } from './errors.js';

/** Refuses a request, with the status of its code. */
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
    this.status = statusOf(code);
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
  const msg = 'The service cannot answer now, please try again';
  return new ApiError('temporarily_unavailable', msg, { 'Retry-After': '1' }, cause);
}

export function tooMany(message: string, retryAfterMs: number): ApiError {
  return new ApiError('too_many_requests', message, {
    'Retry-After': String(Math.max(1, Math.ceil(retryAfterMs / 1000))),
  });
}

/**
 * Returns the body of an error's answer. Under /oauth it is that of RFC 6749, section 5.2, also for a path in another case,
 * because the caller reads the answer with an OAuth library.
 */
export function problemOf(err: ApiError, path: string, requestId: string): Record<string, string> {
  return oauthPath.test(path)
    ? { error: oauthErrorOf(err.code), error_description: err.message }
    : { msg: err.message, code: err.code, request_id: requestId };
}

const oauthPath = /^\/oauth\//i;
