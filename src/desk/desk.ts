/** The operators' door of a process, on its admin port: calls for programs, and the desk, which is pages for people. */
import Router from '@koa/router';
import type Koa from 'koa';
import { createEdge } from '../api/app.js';
import { consoleFiles } from '../api/console/page.js';
import { docsFiles } from '../api/reference/docs.js';
import type { Services } from '../api/step.js';
import { mountCalls } from './calls.js';
import { customerPage, sitePages } from './customer.js';
import { findPage } from './find.js';
import { allOperations, mountOperations } from './forms.js';
import { nowPage } from './now.js';
import { callbackEndpoint, type DeskPage, deskDoor, deskPage, signInEndpoint } from './people.js';

export function createDesk(services: Services): Koa {
  const router = new Router({ sensitive: true });
  mountCalls(router, services);
  mountPages(router, services);
  const { '/docs/errors': errorsPage, '/docs/errors.css': errorsStyle } = docsFiles;
  const files = { ...consoleFiles, '/docs/errors': errorsPage, '/docs/errors.css': errorsStyle };
  for (const [path, file] of Object.entries(files)) {
    router.get(path, async (ctx) => {
      ctx.body = await file(ctx);
    });
  }
  const app = createEdge(services.log, services.metrics);
  app.use(router.routes());
  app.use(router.allowedMethods());
  return app;
}

function mountPages(router: Router, services: Services): void {
  deskDoor(services).mount(router);
  router.get('/desk/sign_in', ...signInEndpoint(services));
  router.get('/desk/callback', ...callbackEndpoint(services));
  const page = (path: string, answer: DeskPage) => router.get(path, ...deskPage(services, answer));
  page('/desk', nowPage());
  page('/desk/find', findPage);
  page('/desk/accounts/:id', customerPage);
  for (const { path, answer } of sitePages) page(`/desk/clients/:site${path}`, answer);
  page('/desk/do', allOperations);
  mountOperations(router, services);
  // The answer stays 404, on a page with the links of the desk.
  page('/desk/{*nowhere}', () => {});
}
