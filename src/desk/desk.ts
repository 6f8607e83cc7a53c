/** The operators' door of a process, on its admin port: calls for programs, and the desk, which is pages for people. Its first pages. */
import Router from '@koa/router';
import type Koa from 'koa';
import { createEdge } from '../api/app.js';
import type { Services } from '../api/deps.js';
import { docsFiles } from '../api/reference/docs.js';
import { parseParameters } from '../http/query.js';
import { eventIdPattern, isClientToken, isNoticesClient } from '../ids.js';
import { accountList } from '../operator/account.js';
import { clientList } from '../operator/client.js';
import { type Answer, type Operator, unlimited } from '../operator/operation.js';
import { status, temporalWithinMs } from '../operator/status.js';
import { mapInPages } from '../promises.js';
import { explainAsset, isKnown } from '../redis/notifications/decisions.js';
import { notificationOfEvent } from '../redis/notifications/notificationPages.js';
import { findNotification, type ListedNotification } from '../redis/notifications/notifications.js';
import { accountIdOf, getAccount } from '../redis/records/accounts.js';
import { readAttempts } from '../redis/records/attemptHistory.js';
import { getClient } from '../redis/records/clients.js';
import { explainTemporal } from '../temporal/refusal.js';
import { redirect } from '../web/door.js';
import { mountFiles } from '../web/files.js';
import { html } from '../web/html.js';
import { lastDay, plot } from '../web/overview.js';
import { consoleFiles } from '../web/page.js';
import { bare, readingsOf } from '../web/site.js';
import { answerRefusals, mountCalls } from './calls.js';
import { customerPage, sitePages, siteUrl } from './customer.js';
import { allOperations, mountOperations, shownParts } from './forms.js';
import { createDeskDoor, type DeskDoor, type DeskPage } from './people.js';

export function createDesk(services: Services): Koa {
  const router = new Router({ sensitive: true });
  mountCalls(router, services);
  mountPages(router, createDeskDoor(services));
  const { '/docs/errors': errorsPage, '/docs/errors.css': errorsStyle } = docsFiles;
  mountFiles(router, { ...consoleFiles, '/docs/errors': errorsPage, '/docs/errors.css': errorsStyle });
  const app = createEdge(services.log, services.metrics, services.config.TRUSTED_PROXIES);
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
    shared = status.run(operator, {}, unlimited);
    const tookMs = () => performance.now() - begunMs;
    shared.then(
      () => (untilMs = performance.now() + Math.max(2000, 20 * tookMs())),
      () => (untilMs = 0),
    );
    return shared;
  };
}

/** GET /desk/find: one field finds whatever an operator was told; of a single match its page, at once. */
const findPage: DeskPage = async ({ ctx, operator }, services) => {
  const asked = parseParameters(ctx.querystring).get('q') ?? '';
  const found = asked.trim() === '' ? undefined : await find(services, operator(), asked);
  const [only] = found?.hrefs ?? [];
  if (only !== undefined && found?.hrefs.length === 1) return redirect(ctx, only);
  return {
    title: 'Find',
    body: [
      html`<form class="row" action="/desk/find"><div><label for="q">A customer or site by a part of its name; a client token; the host of a URL; the id of a notification, event, asset or workflow</label>
<input id="q" name="q" value="${asked}" maxlength="2048" autocomplete="off" spellcheck="false" required autofocus></div><button>Find</button></form>`,
      found?.shown,
      found?.hrefs.length === 0 &&
        html`<p role="status">Nothing is found by <code>${asked}</code>. What was deleted is in the <a href="/desk/do/audit?of=${encodeURIComponent(bare(asked))}">audit</a>. An event or asset whose workflow Temporal no longer keeps, or whose id has a double quote, backslash or semicolon, is found at its site: “Why was it not sent?”</p>`,
    ],
  };
};

const shownAtMost = 50;
const workflowsAtMost = 20;

/** Returns the pages that are found, and how they are shown if there are several. */
async function find(services: Services, operator: Operator, asked: string) {
  const readings = readingsOf(asked);
  for (const one of readings) {
    const href = await pageOf(services, one);
    if (href !== undefined) return { hrefs: [href], shown: '' };
  }
  const text = bare(asked) || asked;
  const url = text.replace(/^(?=[\w-]+(\.[\w-]+)+(:\d+)?\/)/, 'https://');
  const name = /^https?:/i.test(url) && URL.canParse(url) ? new URL(url).host : text;
  const lists = [accountList, clientList].map((list) => list.run(operator, { name }, { limit: shownAtMost }));
  const answers = await Promise.all(lists);
  const hrefs = answers
    .flatMap(({ value }) => value as { account_id: string; client_token?: string }[])
    .map((one) => (one.client_token ? siteUrl(one.client_token) : `/desk/accounts/${one.account_id}`));
  if (hrefs.length === 0) return await findInTemporal(services, readings);
  const more = answers.some(({ next }) => next) && html`<p>The first ${shownAtMost} of each are shown.</p>`;
  const filled = answers.filter(({ value }) => (value as unknown[]).length > 0);
  return { hrefs, shown: [...filled.map(({ shown }) => shownParts(shown)), more] };
}

const notificationUrl = ({ clientToken, notificationId }: ListedNotification): string =>
  `${siteUrl(clientToken)}/notifications/${notificationId}`;

/** Finds by an id; that of a notification may stand anywhere in the text. */
async function pageOf({ db }: Services, asked: string): Promise<string | undefined> {
  const [msg] = /msg_[\w-]{22}(?![\w-])/.exec(asked) ?? [];
  const notification = msg && (await findNotification(db, msg));
  if (notification) return notificationUrl(notification);
  const account = await getAccount(db, asked.startsWith('cid_') ? accountIdOf(asked) : asked);
  if (account !== undefined) return `/desk/accounts/${account.accountId}`;
  const isClient = isClientToken(asked) || isNoticesClient(asked);
  return isClient && (await getClient(db, asked)) ? siteUrl(asked) : undefined;
}

/** Finds events and assets by the search attributes of their workflows. */
async function findInTemporal({ db, temporal, config }: Services, readings: readonly string[]) {
  // A server on SQLite refuses a query for a quote.
  const texts = readings.map((one) => `"${one.replaceAll('"', '').replaceAll('\\', '\\\\')}"`);
  const query = texts.map((one) => `EventId = ${one} OR PlatformId = ${one}`).join(' OR ');
  const tokens = new Set<string>();
  let seen = 0;
  try {
    await temporal.connection.withDeadline(Date.now() + temporalWithinMs, async () => {
      for await (const { searchAttributes } of temporal.workflow.list({ query })) {
        for (const token of (searchAttributes.ClientToken ?? []) as string[]) tokens.add(token);
        if (++seen === workflowsAtMost) break;
      }
    });
  } catch (err) {
    const { says } = await explainTemporal(err, config.temporalConnection);
    const shown = html`<div class="notice warn" role="status"><p>${says} So no event or asset is found by its id alone.</p></div>`;
    return { hrefs: [], shown };
  }
  const pages = await mapInPages([...tokens], workflowsAtMost, async (token) => {
    for (const id of readings) {
      const event = eventIdPattern.test(id) ? await notificationOfEvent(db, token, id) : undefined;
      if (event !== undefined) return { token, id, href: notificationUrl(event) };
      const href = `${siteUrl(token)}/asset?platform_id=${encodeURIComponent(id)}`;
      if (isKnown(await explainAsset(db, token, id))) return { token, id, href };
    }
    return [];
  });
  const found = pages.flat();
  const links = found.map(({ token, id, href }) => html`<li><a href="${href}">${id}</a> of ${token}</li>`);
  const more =
    seen === workflowsAtMost && html`<p>Only ${seen} workflows were looked at: more sites may have it.</p>`;
  return { hrefs: found.map(({ href }) => href), shown: [html`<ul>${links}</ul>`, more] };
}
