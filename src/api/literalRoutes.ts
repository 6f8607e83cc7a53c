import type Router from '@koa/router';
import type { RouterContext, RouterMiddleware } from '@koa/router';
import type { Middleware } from 'koa';

/**
 * Finds a route without parameters by a look-up. The router, which comes after this, tries every pattern for each
 * request and composes its middlewares again, which takes at least 8 % of the service's CPU for a token call (figures in
 * docs/dependencies.md). The router handles all other requests: parameters, HEAD, OPTIONS, and methods not allowed.
 */
export function literalRoutes(router: Router): Middleware {
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
