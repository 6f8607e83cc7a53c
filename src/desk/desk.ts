/** The operators' door of a process, on its admin port: calls for programs, and the desk, which is pages for people. */
import Router from '@koa/router';
import type Koa from 'koa';
import { createEdge } from '../api/app.js';
import { html } from '../api/console/html.js';
import { lastDay, plot } from '../api/console/overview.js';
import { consoleFiles } from '../api/console/page.js';
import { docsFiles } from '../api/reference/docs.js';
import type { Services } from '../api/step.js';
import { type Answer, type Operator, whole } from '../operator/operation.js';
import { status } from '../operator/status.js';
import { readAttempts } from '../redis/records/attemptHistory.js';
import { answerRefusals, mountCalls } from './calls.js';
import { customerPage, sitePages } from './customer.js';
import { findPage } from './find.js';
import { allOperations, mountOperations, shownParts } from './forms.js';
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
  app.use(answerRefusals);
  app.use(router.routes());
  app.use(router.allowedMethods());
  return app;
}

function mountPages(router: Router, services: Services): void {
  deskDoor(services).mount(router);
  router.get('/desk/sign_in', signInEndpoint(services));
  router.get('/desk/callback', callbackEndpoint(services));
  const page = (path: string, answer: DeskPage) => router.get(path, deskPage(services, answer));
  page('/desk', nowPage());
  page('/desk/find', findPage);
  page('/desk/accounts/:id', customerPage);
  for (const { path, answer } of sitePages) page(`/desk/clients/:site${path}`, answer);
  page('/desk/do', allOperations);
  mountOperations(router, services);
  // The answer stays 404, on a page with the links of the desk.
  page('/desk/{*nowhere}', () => undefined);
}

/** GET /desk: whether it is us or them, what to do, and the last day of the whole service. */
function nowPage(): DeskPage {
  const look = sharedLook();
  return async ({ operator }, { db }) => {
    const [{ shown }, steps] = await Promise.all([look(operator()), readAttempts(db)]);
    const owed = { name: 'owed assets', tint: 4, values: steps.map((step) => step.owed ?? 0) };
    return {
      title: 'Now',
      isLive: true,
      body: [shownParts(shown), html`<h2>The last day</h2>`, plot('Owed', steps, [owed]), lastDay(steps)],
    };
  };
}

/** Status reads every client: the pages of all people share a look, and looking takes a twentieth of the time. */
function sharedLook(): (operator: Operator) => Promise<Answer> {
  let shared: Promise<Answer>;
  let untilMs = 0;
  return (operator) => {
    const begunMs = performance.now();
    if (begunMs < untilMs) return shared;
    untilMs = Number.POSITIVE_INFINITY;
    shared = status.run(operator, {}, whole);
    const tookMs = () => performance.now() - begunMs;
    shared.then(
      () => (untilMs = performance.now() + Math.max(2000, 20 * tookMs())),
      () => (untilMs = 0),
    );
    return shared;
  };
}
