/** An answer other than success. The message goes to the caller; nothing secret may be in it. */
export class ApiError extends Error {
  override name = 'ApiError';

  /**
   * @param status HTTP status
   * @param code for programs; under /oauth one of RFC 6749, section 5.2
   * @param message for people
   */
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

/** Something that is needed does not answer now: unknown whether anything happened. */
export function unavailable(): ApiError {
  return new ApiError(503, 'temporarily_unavailable', 'The service cannot answer now, please try again', {
    'Retry-After': '1',
  });
}

export function tooMany(message: string, retryAfterMs: number): ApiError {
  return new ApiError(429, 'too_many_requests', message, {
    'Retry-After': String(Math.max(1, Math.ceil(retryAfterMs / 1000))),
  });
}
