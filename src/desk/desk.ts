/** The operators' door of a process, on its admin port: calls for programs, and the desk, which is pages for people. */
import Router from '@koa/router';
import type Koa from 'koa';
import { createEdge } from '../api/app.js';
import { consoleFiles } from '../api/console/page.js';
import { docsFiles } from '../api/reference/docs.js';
import type { Services } from '../api/step.js';
import { auditCsv, auditPage } from './auditPage.js';
import { mountCalls } from './calls.js';
import { anyNotificationPage, customerPage, sitePages } from './customer.js';
import { findPage } from './find.js';
import { allOperations, operationPages } from './forms.js';
import { nowPage } from './now.js';
import { deskPage, openEndpoint, openPageOf, signOutEndpoint } from './people.js';
import { callbackEndpoint, signInEndpoint } from './signIn.js';

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

/** Leaves the answer at 404, on a page with the links of the desk. */
const nothing = () => {};

function mountPages(router: Router, services: Services): void {
  router.get('/desk/open', ...openPageOf(services));
  router.post('/desk/open', ...openEndpoint(services));
  router.get('/desk/sign_in', ...signInEndpoint(services));
  router.get('/desk/callback', ...callbackEndpoint(services));
  router.post('/desk/sign_out', ...signOutEndpoint(services));
  router.get('/desk', ...nowPage(services));
  router.get('/desk/find', ...findPage(services));
  router.get('/desk/accounts/:id', ...customerPage(services));
  for (const { path, page } of sitePages(services)) router.get(`/desk/clients/:site${path}`, ...page);
  router.get('/desk/notifications/:id', ...anyNotificationPage(services));
  router.get('/desk/audit', ...auditPage(services));
  router.get('/desk/audit.csv', ...auditCsv(services));
  router.get('/desk/do', ...allOperations(services));
  for (const { path, page, form } of operationPages(services)) {
    router.get(path, ...page);
    if (form) router.post(path, ...form);
  }
  router.get('/desk/*nowhere', ...deskPage(services, nothing));
}
