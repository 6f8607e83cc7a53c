import type { ApiError } from './apiError.js';
import { oauthErrorOf } from './errors.js';

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
