/** Finds whatever an operator was told, by one field. */
import { hasPart } from '../acts/clients.js';
import type { Services } from '../api/deps.js';
import { parseParameters } from '../http/query.js';
import { assetSlot, eventIdPattern, isClientToken, isNoticesClient } from '../ids.js';
import { accountList } from '../operator/account.js';
import { clientList } from '../operator/client.js';
import type { Operator } from '../operator/operation.js';
import { temporalWithinMs } from '../operator/temporalChecks.js';
import { mapInPages, restsBetweenSteps } from '../promises.js';
import { explainAsset, isKnown } from '../redis/notifications/decisions.js';
import { notificationOfEvent } from '../redis/notifications/notificationPages.js';
import { findNotification, type ListedNotification } from '../redis/notifications/notifications.js';
import { accountIdOf, getAccount } from '../redis/records/accounts.js';
import { clientTokens, getClient } from '../redis/records/clients.js';
import { explainTemporal } from '../temporal/refusal.js';
import { redirect, type Sent } from '../web/door.js';
import { html, type Piece } from '../web/html.js';
import { formTokenField } from '../web/page.js';
import { bare, readingsOf } from '../web/site.js';
import { hrefOf, named, namesOf, shownParts, siteUrl } from './names.js';
import type { DeskPage, DeskVisit } from './people.js';

/** GET /desk/find */
export const findPage: DeskPage = (visit, services) =>
  answerFind(visit, services, parseParameters(visit.ctx.querystring).get('q') ?? '');

/** POST /desk/find: what is pasted stays out of addresses, and so out of logs. */
export const findForm: DeskPage<DeskVisit & Sent> = (visit, services) =>
  answerFind(visit, services, visit.form.get('q') ?? '');

/** Finds whatever an operator was told; of a single match that is sure it leads to the page, at once. */
async function answerFind({ ctx, operator, formToken }: DeskVisit, services: Services, asked: string) {
  const found = asked.trim() === '' ? undefined : await find(services, operator(), asked);
  const [only] = found?.hrefs ?? [];
  if (only !== undefined && found?.hrefs.length === 1 && found.isSure) return redirect(ctx, only);
  return {
    title: 'Find',
    body: [
      html`<form class="row" method="post" action="/desk/find">${formTokenField(formToken)}<div><label for="q">A customer or site by a part of its name; a client token; a URL; the id of a notification, event, asset or workflow</label>
<input id="q" name="q" value="${asked}" maxlength="2048" autocomplete="off" spellcheck="false" required autofocus></div><button>Find</button></form>`,
      found?.shown,
      found?.hrefs.length === 0 &&
        html`<p role="status">Nothing is found by <code>${asked}</code>. What was deleted is in the <a href="/desk/do/audit?of=${encodeURIComponent(bare(asked))}">audit</a>. An event that made no notification is found by its video only. An event whose workflow Temporal no longer keeps, or whose id has a double quote, backslash or semicolon, is found at its site: “Why was it not sent?” A video is found by its whole id here, and by a part of it there.</p>`,
    ],
  };
}

const shownAtMost = 50;
const workflowsAtMost = 20;

interface Found {
  hrefs: string[];
  shown: Piece;
  /** Nothing else can be meant: the match is whole, and no search was cut. */
  isSure: boolean;
}

/** Returns the pages that are found, and how they are shown if there are several. */
async function find(services: Services, operator: Operator, asked: string): Promise<Found> {
  const readings = readingsOf(asked);
  for (const one of readings) {
    const href = await pageOf(services, one);
    if (href !== undefined) return { hrefs: [href], shown: '', isSure: true };
  }
  const text = bare(asked) || asked;
  const url = text.replace(/^(?=[\w-]+(\.[\w-]+)+(:\d+)?\/)/, 'https://');
  const name = /^https?:/i.test(url) && URL.canParse(url) ? new URL(url).host : text;
  const whole = name === text ? [] : await sitesAt(operator, name, url);
  if (whole.length > 0) return { hrefs: whole.map(siteUrl), shown: '', isSure: true };
  const lists = [accountList, clientList].map((list) => list.run(operator, { name }, { limit: shownAtMost }));
  const answers = await Promise.all(lists);
  const rows = answers.flatMap(({ value }) => value as Row[]);
  // Where no name is the whole of it, one may have the id of another's video in it.
  const isNamed = rows.some((row) => isWhole(row, name));
  const videos = isNamed ? { hrefs: [], shown: '', isSure: true } : await findVideo(services, readings);
  if (rows.length + videos.hrefs.length === 0) return findInTemporal(services, readings, videos);
  const isCut = answers.some(({ next }) => next);
  const more = isCut && html`<p>The first ${shownAtMost} of each are shown.</p>`;
  const filled = answers.filter(({ value }) => (value as unknown[]).length > 0);
  const shown = await Promise.all(filled.map((one) => shownParts(services.db, one.shown)));
  return {
    hrefs: [
      ...rows.map(({ client_token, account_id }) => hrefOf(client_token ?? account_id)),
      ...videos.hrefs,
    ],
    shown: [...shown, more, videos.shown],
    isSure: videos.isSure && !isCut && rows.every((row) => isWhole(row, name)),
  };
}

type Row = { account_id: string; name: string; client_token?: string; url?: string | null };

const isWhole = ({ name, client_token, url }: Row, asked: string): boolean =>
  [name, client_token, url && new URL(url).host].some(
    (one) => one && hasPart(one, asked) && hasPart(asked, one),
  );

/** Finds the one site whose URL a pasted one is, with its path: only for roles that may see it. */
async function sitesAt(operator: Operator, host: string, pasted: string): Promise<string[]> {
  const { pathname, origin } = new URL(pasted);
  const { value, next } = await clientList.run(operator, { name: host }, { limit: sitesAtMost });
  const sites = (value as { client_token: string; url: string | null }[]).filter(({ url }) => {
    const own = url === null ? undefined : new URL(url);
    return own?.origin === origin && own.pathname === pathname && pathname !== '/';
  });
  return sites.length === 1 && next === undefined ? sites.map(({ client_token }) => client_token) : [];
}

const sitesAtMost = 1000;
const searchMs = 3000;

/** Finds a video of any site of which something is known, also if its event made no notification: for three seconds at most. */
async function findVideo({ db }: Services, readings: readonly string[]): Promise<Found> {
  const endMs = performance.now() + searchMs;
  const found: { token: string; id: string }[] = [];
  let isCut = false;
  const rest = restsBetweenSteps();
  for await (const page of clientTokens(db)) {
    await rest();
    isCut = performance.now() > endMs;
    if (isCut) break;
    const pages = await mapInPages(page, 100, async (token) => {
      const keys = db.client(token);
      for (const id of readings) {
        const { bucket, field } = assetSlot(id);
        const [known, decided] = await Promise.all([
          db.redis.hexists(keys.known(bucket), field),
          db.redis.exists(keys.decision(id)),
        ]);
        if (known + decided > 0 && (await getClient(db, token))) return [{ token, id }];
      }
      return [];
    });
    found.push(...pages.flat());
  }
  const tokens = found.map(({ token }) => token);
  const names = await namesOf(db, tokens);
  const links = found.map(
    (one) => html`<li><a href="${videoUrl(one)}">${one.id}</a> of ${named(one.token, names)}</li>`,
  );
  const more =
    isCut && html`<p role="status">Not every site was looked at for a video of this id: ask at its site.</p>`;
  const shown = [links.length > 0 && html`<h2>Videos</h2><ul>${links}</ul>`, more];
  return { hrefs: found.map(videoUrl), shown, isSure: !isCut };
}

const videoUrl = ({ token, id }: { token: string; id: string }): string =>
  `${siteUrl(token)}/asset?platform_id=${encodeURIComponent(id)}`;

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
async function findInTemporal(
  { db, temporal, config }: Services,
  readings: readonly string[],
  before: Found,
): Promise<Found> {
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
    return { hrefs: [], shown: [before.shown, shown], isSure: false };
  }
  const pages = await mapInPages([...tokens], workflowsAtMost, async (token) => {
    for (const id of readings) {
      const event = eventIdPattern.test(id) ? await notificationOfEvent(db, token, id) : undefined;
      if (event !== undefined) return { token, id, href: notificationUrl(event) };
      if (isKnown(await explainAsset(db, token, id))) return { token, id, href: videoUrl({ token, id }) };
    }
    return [];
  });
  const found = pages.flat();
  const links = found.map(({ token, id, href }) => html`<li><a href="${href}">${id}</a> of ${token}</li>`);
  const isCut = seen === workflowsAtMost;
  const more = isCut && html`<p>Only ${seen} workflows were looked at: more sites may have it.</p>`;
  return {
    hrefs: found.map(({ href }) => href),
    shown: [before.shown, html`<ul>${links}</ul>`, more],
    isSure: before.isSure && !isCut,
  };
}
