/** The operators' door of a process, on its admin port: calls for programs, and the desk, which is pages for people. Its first pages. */
import Router from '@koa/router';
import type Koa from 'koa';
import type { z } from 'zod';
import { createEdge } from '../api/app.js';
import type { Services } from '../api/deps.js';
import { docsFiles } from '../api/reference/docs.js';
import { createLines } from '../api/steps/pace.js';
import type { Step } from '../http/context.js';
import { parseParameters } from '../http/query.js';
import { eventIdPattern, isClientToken, isNoticesClient } from '../ids.js';
import { accountList } from '../operator/account.js';
import { clientList } from '../operator/client.js';
import { type Answer, type Operator, unlimited } from '../operator/operation.js';
import { type oneOfWorst, status, temporalWithinMs } from '../operator/status.js';
import { explainFailure } from '../outgoing/details.js';
import { mapInPages } from '../promises.js';
import { explainAsset, isKnown } from '../redis/notifications/decisions.js';
import { notificationOfEvent } from '../redis/notifications/notificationPages.js';
import { findNotification, type ListedNotification } from '../redis/notifications/notifications.js';
import type { Situation } from '../redis/owed/waitReasons.js';
import { accountIdOf, getAccount } from '../redis/records/accounts.js';
import { readAttempts } from '../redis/records/attemptHistory.js';
import { getClient } from '../redis/records/clients.js';
import { explainTemporal } from '../temporal/refusal.js';
import { redirect } from '../web/door.js';
import { mountFiles } from '../web/files.js';
import { html, type Piece } from '../web/html.js';
import { lastDay, plot } from '../web/overview.js';
import { consoleFiles, table } from '../web/page.js';
import { bare, readingsOf } from '../web/site.js';
import { fromNow, stateInWords } from '../web/words.js';
import { answerRefusals, mountCalls } from './calls.js';
import { customerPage, customersPage, sitePages } from './customer.js';
import { allOperations, formUrl, mountOperations, shownParts } from './forms.js';
import { hrefOf, type Names, named, namesOf, siteUrl } from './names.js';
import { createDeskDoor, type DeskDoor, type DeskPage } from './people.js';

/** @param own answers of the port that need no operator */
export function createDesk(services: Services, ...own: Step[]): Koa {
  const router = new Router({ sensitive: true });
  mountCalls(router, services);
  mountPages(router, createDeskDoor(services));
  const { '/docs/errors': errorsPage, '/docs/errors.css': errorsStyle } = docsFiles;
  mountFiles(router, { ...consoleFiles, '/docs/errors': errorsPage, '/docs/errors.css': errorsStyle });
  const { log, metrics, config } = services;
  const app = createEdge(log, metrics, config.TRUSTED_PROXIES, undefined, config.heldRefusalMs);
  for (const step of [createLines(config, log).paceOperators(), ...own]) app.use(step);
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
  return async ({ operator }, { db }) => {
    const [{ shown, value }, steps] = await Promise.all([look(operator()), readAttempts(db)]);
    const { worst } = value as { worst: Worst[] };
    const names = await namesOf(
      db,
      worst.flatMap(({ client_token, account_id }) => [client_token, account_id]),
    );
    // The table of a terminal names commands.
    const told = shown.filter((part) => typeof part === 'string' || !('rows' in part));
    const owed = { name: 'owed assets', tint: 4, values: steps.map((step) => step.owed ?? 0) };
    return {
      title: 'Now',
      isLive: true,
      body: [
        await shownParts(db, told),
        worstSites(worst, names),
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

function worstSites(worst: readonly Worst[], names: Names): Piece {
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
        one.last_error && explainFailure(seen(one)).does,
        isTold ? one.do : links,
      ],
    };
  });
  const columns = [
    'Site',
    'Customer',
    'Situation',
    'Waiting',
    'Failed',
    'Since',
    'Next',
    'Last failure',
    'Do',
  ];
  return [html`<h2>Sites to look at</h2>`, table('Sites to look at', columns, rows)];
}

const seen = ({
  last_error,
  last_detail,
  last_status,
}: Pick<Worst, 'last_error' | 'last_detail' | 'last_status'>) => ({
  error: last_error ?? undefined,
  detail: last_detail ?? undefined,
  status: last_status ?? undefined,
});

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
    .map(({ client_token, account_id }) => hrefOf(client_token ?? account_id));
  if (hrefs.length === 0) return await findInTemporal(services, readings);
  const more = answers.some(({ next }) => next) && html`<p>The first ${shownAtMost} of each are shown.</p>`;
  const filled = answers.filter(({ value }) => (value as unknown[]).length > 0);
  return {
    hrefs,
    shown: [...(await Promise.all(filled.map(({ shown }) => shownParts(services.db, shown)))), more],
  };
}

const notificationUrl = ({ clientToken, notificationId }: ListedNotification): string =>
  `${siteUrl(clientToken)}/notifications/${notificationId}`;

/** Finds by an id; that of a notification may stand anywhere in the text. */
async function pageOf({ db }: Services, asked: string): Promise<string | undefined> {
  const [msg] = /msg_[\w-]{22}(?![\w-])/.exec(asked) ?? [];
  const notification = msg && (await findNotification(db, msg));
  if (notification) return notificationUrl(notification);
  const account = await getAccount(db, asked.startsWith('cid_') ? accountIdOf(asked) : asked);
  if (account !== undefined) return hrefOf(account.accountId);
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
