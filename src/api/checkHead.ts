import { ApiError } from './apiError.js';
import type { Step } from './endpoint.js';

/** Refuses what Node's server would refuse by itself, without a body: no Host, and an Expect that nobody can meet. */
export const checkHead: Step = (ctx, next) => {
  const { headers, httpVersion } = ctx.req;
  if (httpVersion === '1.1') {
    if (headers.host === undefined) throw new ApiError('malformed_request', 'The header Host is missing');
    if (headers.expect !== undefined && !/\b100-continue\b/i.test(headers.expect)) {
      throw new ApiError('expectation_failed', 'The header Expect allows only 100-continue');
    }
  }
  return next();
};
