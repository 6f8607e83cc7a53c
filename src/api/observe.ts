import type { Logger } from '../log.js';
import type { Metrics } from '../metrics.js';
import type { Step } from './composeSteps.js';

/**
 * Writes one log line and one measurement per request: the route's pattern, never the path, query or headers. Successes
 * of very frequent calls are logged at debug level: at thousands a second the metrics say more, and the lines
 * would be a tenth of the cost of a request.
 */
export function observe(log: Logger, metrics: Metrics): Step {
  // No field below may hold a secret, because the redaction is skipped: it is half of the cost of the line.
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
