/** The operators' door of a process, on its admin port: calls for programs, and the desk, which is pages for people. Its first pages. */
import Router from '@koa/router';
import type Koa from 'koa';
import type { z } from 'zod';
import { createEdge } from '../api/app.js';
import type { Services } from '../api/deps.js';
import { docsFiles } from '../api/reference/docs.js';
import { createLines } from '../api/steps/pace.js';
import type { Step } from '../http/context.js';
import { type Answer, type Operator, unlimited } from '../operator/operation.js';
import type { Situation } from '../operator/situations.js';
import { cutInWords, type oneOfWorst, status } from '../operator/status.js';
import { explainFailure } from '../outgoing/details.js';
import { readAttempts } from '../redis/records/attemptHistory.js';
import { mountFiles } from '../web/files.js';
import { html, type Piece } from '../web/html.js';
import { lastDay, plot } from '../web/overview.js';
import { consoleFiles, table } from '../web/page.js';
import { fromNow, stateInWords } from '../web/words.js';
import { answerRefusals, mountCalls } from './calls.js';
import { customerPage, customersPage, sitePages } from './customer.js';
import { findForm, findPage } from './find.js';
import { allOperations, formUrl, mountOperations } from './forms.js';
import { type Names, named, namesOf, shownParts, siteUrl } from './names.js';
import { createDeskDoor, type DeskDoor, type DeskPage } from './people.js';
import { requestsPart } from './urlRequests.js';

/** @param own answers of the port that need no operator */
export function createDesk(services: Services, ...own: Step[]): Koa {
  const router = new Router({ sensitive: true });
  mountCalls(router, services);
  mountPages(router, createDeskDoor(services));
  const { '/docs/errors': errorsPage, '/docs/errors.css': errorsStyle } = docsFiles;
  mountFiles(router, { ...consoleFiles, '/docs/errors': errorsPage, '/docs/errors.css': errorsStyle });
  const { log, metrics, config } = services;
  const lines = createLines(services);
  const around = { pace: lines.paceOperators(), holdRefusal: lines.holdRefusal };
  const app = createEdge({ log, metrics, trustedProxies: config.TRUSTED_PROXIES, ...around });
  for (const step of own) app.use(step);
  app.use(answerRefusals);
  app.use(router.routes());
  app.use(router.allowedMethods());
  return app;
}

function mountPages(router: Router, door: DeskDoor): void {
  door.mount(router);
  const page = (path: string, answer: DeskPage) => router.get(path, door.page(answer));
  page('/desk', nowPage());
  page('/desk/find', findPage);
  router.post('/desk/find', door.form(findForm));
  page('/desk/accounts', customersPage);
  page('/desk/accounts/:id', customerPage);
  for (const { path, answer } of sitePages) page(`/desk/clients/:site${path}`, answer);
  page('/desk/do', allOperations);
  mountOperations(router, door);
  // The answer stays 404, on a page with the links of the desk.
  page('/desk/{*nowhere}', () => undefined);
}

/** GET /desk: whether it is us or them, what to do, and the last day of the whole service. */
function nowPage(): DeskPage {
  const look = sharedLook();
  return async (visit, { db }) => {
    const [{ shown, value }, steps] = await Promise.all([look(visit.operator()), readAttempts(db)]);
    const { worst, amiss } = value as { worst: Worst[]; amiss: number };
    const ids = worst.flatMap(({ client_token, account_id }) => [client_token, account_id]);
    const names = await namesOf(db, ids);
    // The table of a terminal names commands, and may be shorter.
    const told = shown.filter((part) => typeof part === 'object' && !('rows' in part));
    const owed = { name: 'owed assets', tint: 4, values: steps.map((step) => step.owed ?? 0) };
    return {
      title: 'Now',
      isLive: true,
      body: [
        await shownParts(db, told),
        worstSites(worst, amiss, names),
        await requestsPart(visit, db),
        html`<h2>The last day</h2>`,
        plot('Owed', steps, [owed]),
        lastDay(steps),
      ],
    };
  };
}

type Worst = z.output<typeof oneOfWorst>;

/** What the desk can do in a situation, as its button and the operation that its form carries out. */
const remedies: Partial<Record<Situation, [button: string, operation: string]>> = {
  late: ['Resume', 'registration resume'],
  suspended: ['Resume', 'registration resume'],
  failing: ['Send a test', 'registration test'],
  paused: ['Resume', 'registration resume'],
};

function worstSites(worst: readonly Worst[], amiss: number, names: Names): Piece {
  if (worst.length === 0) return '';
  const rows = worst.map(({ client_token: token, situation, failed, ...one }) => {
    const since = one.owed_since ?? one.failed_since;
    const lost = failed > 0 && (['Recover', 'notification recover'] as const);
    const links = [remedies[situation], lost].map(
      (remedy) => remedy && html`<a class="button" href="${formUrl(token, remedy[1])}">${remedy[0]}</a> `,
    );
    const isTold = remedies[situation] === undefined && !lost;
    return {
      cells: [
        named(token, names),
        named(one.account_id, names),
        stateInWords(situation),
        one.owed.toLocaleString('en'),
        failed > 0 &&
          html`<a href="${siteUrl(token)}/notifications?state=failed">${failed.toLocaleString('en')}</a>`,
        since && fromNow(Date.parse(since)),
        one.next_attempt_at && fromNow(Date.parse(one.next_attempt_at)),
        one.last_error && explainFailure(lastFailureOf(one)).does,
        isTold ? one.do : links,
      ],
    };
  });
  const columns = 'Site,Customer,Situation,Waiting,Failed,Since,Next,Last failure,Do'.split(',');
  const cut = cutInWords(worst.length, amiss).map((says) => html`<p>${says}</p>`);
  return [html`<h2>Sites to look at</h2>`, table('Sites to look at', columns, rows), cut];
}

const lastFailureOf = (one: Pick<Worst, 'last_error' | 'last_detail' | 'last_status'>) => {
  return { error: one.last_error, detail: one.last_detail, status: one.last_status };
};

/** Status reads every client: the pages of all people share a look, and looking takes a twentieth of the time. */
function sharedLook(): (operator: Operator) => Promise<Answer> {
  let shared: Promise<Answer>;
  let untilMs = 0;
  return (operator) => {
    const begunMs = performance.now();
    if (begunMs < untilMs) return shared;
    untilMs = Number.POSITIVE_INFINITY;
    shared = status.run(operator, {}, unlimited);
    const tookMs = () => performance.now() - begunMs;
    shared.then(
      () => (untilMs = performance.now() + Math.max(2000, 20 * tookMs())),
      () => (untilMs = 0),
    );
    return shared;
  };
}
