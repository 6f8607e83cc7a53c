import { randomUUID } from 'node:crypto';
import type { Step } from './endpoint.js';

const acceptable = /^[A-Za-z0-9._-]{8,64}$/;

/** Names the request: the caller's X-Request-Id where it has a harmless form, else a new one. */
export const nameRequest: Step = async (ctx, next) => {
  const given = ctx.get('x-request-id');
  ctx.state.requestId = acceptable.test(given) ? given : randomUUID();
  ctx.set('X-Request-Id', ctx.state.requestId);
  await next();
};
