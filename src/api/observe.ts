import type { Logger } from '../log.js';
import type { Metrics } from '../metrics.js';
import type { Step } from './endpoint.js';

/**
 * Writes one log line and one measurement per request: the route's pattern, never the path, query or headers. The successes
 * of what programs call all the time are logged at debug: at thousands a second the metrics say more, and the lines
 * would be a tenth of what a request costs.
 */
export function observe(log: Logger, metrics: Metrics): Step {
  // Nothing below may hold a secret: looking for one is half of what the line costs.
  const requests = log.child({}, { redact: [] });
  return async (ctx, next) => {
    const begun = performance.now();
    await next();
    const ms = performance.now() - begun;
    const route = String(ctx._matchedRoute ?? 'none');
    const { status } = ctx;
    metrics.answered({ method: knownMethods.has(ctx.method) ? ctx.method : 'other', route, status }, ms);
    const level = status < 400 && busyRoutes.has(route) ? 'debug' : 'info';
    requests[level](
      { route, method: ctx.method, status, ms: Math.round(ms * 10) / 10, request_id: ctx.state.requestId },
      'request',
    );
  };
}

const busyRoutes = new Set(['/oauth/access_token', '/enrichments']);
const knownMethods = new Set(['GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'DELETE', 'PATCH']);
