import { ApiError } from '../apiError.js';

/** RFC 6750, section 3.1. */
export function insufficientScope(scope: string): ApiError {
  return new ApiError('insufficient_scope', `The access token does not have the scope ${scope}`, {
    'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${scope}"`,
  });
}
