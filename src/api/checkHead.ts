import { ApiError } from './apiError.js';
import type { Step } from './composeSteps.js';

/** Refuses requests that Node's server would refuse without a body: without Host, or with an unknown Expect. */
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
