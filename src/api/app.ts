import { randomUUID } from 'node:crypto';
import Router, { type RouterContext, type RouterMiddleware } from '@koa/router';
import Koa, { type Middleware } from 'koa';
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics.js';
import { ApiError, answerErrors } from './apiError.js';
import { mountConsole } from './console/mount.js';
import { endpoints } from './endpoints.js';
import { docsFileEndpoints } from './reference/docs.js';
import { openapiEndpoint } from './reference/openapi.js';
import type { ApiDeps, Step } from './step.js';

export type { ApiDeps } from './step.js';

/** Builds the HTTP edge: every path with its endpoint, and the middlewares around them. */
export function createApi(deps: ApiDeps): Koa {
  // A path in another case is another path, so that rules of a proxy by path hold here too.
  const router = new Router({ sensitive: true });
  for (const { method, path, middlewares } of [...endpoints, openapiEndpoint]) {
    router[method](path.replaceAll(/\{(\w+)\}/g, ':$1'), ...middlewares(deps));
  }
  for (const [path, file] of docsFileEndpoints) router.get(path, ...file);
  mountConsole(router, deps);

  const app = new Koa();
  app.use(nameRequest);
  app.use(observe(deps.log, deps.metrics));
  app.use(answerErrors(deps.log));
  app.use(checkHead);
  app.use(literalRoutes(router));
  app.use(router.routes());
  app.use(router.allowedMethods());
  // Errors after the answer was handed over, such as a caller that hung up.
  app.on('error', (err: NodeJS.ErrnoException) => deps.log.debug({ reason: err.code }, 'connection error'));
  return app;
}

/** Refuses requests that Node's server would refuse without a body: without Host, or with an unknown Expect. */
const checkHead: Step = (ctx, next) => {
  const { headers, httpVersion } = ctx.req;
  if (httpVersion === '1.1') {
    if (headers.host === undefined) throw new ApiError('malformed_request', 'The header Host is missing');
    if (headers.expect !== undefined && !/\b100-continue\b/i.test(headers.expect)) {
      throw new ApiError('expectation_failed', 'The header Expect allows only 100-continue');
    }
  }
  return next();
};

const acceptable = /^[A-Za-z0-9._-]{8,64}$/;

/** Sets the request's id: the caller's X-Request-Id if it has a safe form, else a new one. */
const nameRequest: Step = (ctx, next) => {
  const given = ctx.req.headers['x-request-id'];
  const requestId = typeof given === 'string' && acceptable.test(given) ? given : randomUUID();
  ctx.state.requestId = requestId;
  ctx.res.setHeader('X-Request-Id', requestId);
  return next();
};

/**
 * Finds a route without parameters by a look-up. The router, which comes after this, tries every pattern for each
 * request and composes its middlewares again, which takes at least 8 % of the service's CPU for a token call (figures in
 * docs/dependencies.md). The router handles all other requests: parameters, HEAD, OPTIONS, and methods not allowed.
 */
function literalRoutes(router: Router): Middleware {
  const routes = new Map<string, { path: string; handle: RouterMiddleware }>();
  for (const { path, methods, stack } of router.stack) {
    const [handle] = stack;
    if (typeof path !== 'string' || path.includes(':') || handle === undefined || stack.length > 1) continue;
    for (const method of methods) {
      if (method !== 'HEAD') routes.set(`${method} ${path}`, { path, handle });
    }
  }
  return (ctx, next) => {
    const route = routes.get(`${ctx.req.method} ${ctx.path}`);
    if (route === undefined) return next();
    ctx._matchedRoute = route.path;
    return route.handle(ctx as RouterContext, next);
  };
}

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
