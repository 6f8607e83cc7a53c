import Router from '@koa/router';
import Koa from 'koa';
import { answerErrors } from './answerErrors.js';
import { checkHead } from './checkHead.js';
import { mountConsole } from './console/mount.js';
import type { ApiDeps } from './deps.js';
import { endpoints } from './endpoints.js';
import { literalRoutes } from './literalRoutes.js';
import { observe } from './observe.js';
import { docsFileEndpoints } from './reference/docs.js';
import { openapiEndpoint } from './reference/openapi.js';
import { nameRequest } from './requestId.js';

export type { ApiDeps } from './deps.js';

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
