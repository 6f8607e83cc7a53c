import { randomUUID } from 'node:crypto';
import type { Step } from './composeSteps.js';

const acceptable = /^[A-Za-z0-9._-]{8,64}$/;

/** Sets the request's id: the caller's X-Request-Id if it has a safe form, else a new one. */
export const nameRequest: Step = (ctx, next) => {
  const given = ctx.req.headers['x-request-id'];
  const requestId = typeof given === 'string' && acceptable.test(given) ? given : randomUUID();
  ctx.state.requestId = requestId;
  ctx.res.setHeader('X-Request-Id', requestId);
  return next();
};
