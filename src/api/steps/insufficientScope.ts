import { ApiError } from '../apiError.js';

/** Refuses a token without the scope, as RFC 6750, section 3.1, has it. */
export function insufficientScope(scope: string): ApiError {
  return new ApiError('insufficient_scope', `The access token does not have the scope ${scope}`, {
    'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${scope}"`,
  });
}
