/** The pages of an account: its sites, and its notices. */
import type { Context } from 'koa';
import { clientTokenPattern, isClientToken, isNoticesClient, noticesClient } from '../../ids.js';
import type { Db } from '../../redis/connection/db.js';
import { listNotifications } from '../../redis/notifications/notificationPages.js';
import type { ListedNotification } from '../../redis/notifications/notifications.js';
import { type Client, getClient, pageOfClients } from '../../redis/records/clients.js';
import { readSite, siteStates } from '../../redis/records/endpoint.js';
import type { ConsoleSession } from '../../redis/records/sessions.js';
import { badParameter } from '../apiError.js';
import { notACursor } from '../reference/schemas.js';
import type { ApiDeps } from '../step.js';
import { redirect, type Visit } from './door.js';
import { html, type Piece } from './html.js';
import { actionForm, noResult, type Page, table } from './page.js';
import { bare, given, type Site, shownUrl, siteUrl } from './site.js';
import {
  badge,
  exactly,
  failedInWords,
  faultInWords,
  fromNow,
  hasPart,
  healthNotice,
  nextAttempt,
  stateField,
} from './words.js';

const perPage = 50;

/** GET /console: every site of the account, page by page; a client token as `site` leads to its page. */
export async function sitesPage({ ctx, session }: Visit<ConsoleSession>, { db }: ApiDeps) {
  const { accountId } = session;
  const asked = bare(given(ctx, 'site') ?? '');
  const found = isClientToken(asked) ? await getClient(db, asked) : undefined;
  if (found?.accountId === accountId) return redirect(ctx, siteUrl(found.clientToken));
  return { title: 'Sites', isLive: true, body: await sitesPart(ctx, db, accountId) };
}

/** Shows the sites of an account, page by page. @param href of a site's pages */
export async function sitesPart(
  ctx: Pick<Context, 'path' | 'querystring'>,
  db: Db,
  accountId: string,
  href = siteUrl,
): Promise<Piece> {
  const [cursor, wanted, part = ''] = ['cursor', 'state', 'site'].map((name) => given(ctx, name));
  if (cursor !== undefined && !clientTokenPattern.test(cursor)) throw badParameter(`cursor ${notACursor}`);
  const meant = bare(part);
  const matching = async (client: Client) => {
    const { clientToken, name } = client;
    if (isNoticesClient(clientToken) || !hasPart(`${name}\n${clientToken}`, meant)) return undefined;
    const site = await readSite(db, client);
    return wanted === undefined || site.state === wanted ? site : undefined;
  };
  const { clients, next } = await pageOfClients(db, { accountId, after: cursor, limit: perPage }, matching);
  const rows = clients.map((site) => siteRow(site, href(site.clientToken)));
  const columns = ['Site', 'State', 'Videos that wait', 'Last success', 'Sent to'];
  const none = `There are no ${cursor ? 'further ' : wanted || part ? 'such ' : ''}sites here.`;
  const asked = Object.entries({ state: wanted ?? '', site: part, cursor: next ?? '' });
  const more = String(new URLSearchParams(asked.filter(([, value]) => value)));
  return [
    html`<form class="row" action="${ctx.path}"><div><label for="site">Site</label>
<input id="site" name="site" value="${part}" autocomplete="off" placeholder="part of name or token" maxlength="128"></div>${stateField(siteStates, wanted)}<button class="quiet">Filter</button></form>`,
    rows.length === 0 ? html`<p>${none}</p>` : table('Sites', columns, rows),
    next !== undefined && html`<p><a href="${ctx.path}?${more}" rel="next">More sites</a></p>`,
  ];
}

type ListedSite = Awaited<ReturnType<typeof readSite<Client>>>;

function siteRow({ clientToken, name, health, registration, state }: ListedSite, href: string) {
  const failed = health && health.failed > 0 && failedInWords(health);
  return {
    id: `site-${clientToken}`,
    cells: [
      html`<a href="${href}">${name || clientToken}</a> <code class="faint">${clientToken}</code>`,
      html`${badge(state)} ${health ? registration && faultInWords(health) : 'its data is broken'} ${failed}`,
      health?.owed.toLocaleString('en'),
      health && fromNow(health.lastSuccessAt),
      registration && new URL(registration.url).host,
    ],
  };
}

/** GET /console/notices: the URL of the account's notices, how it stands, and the newest 20 notices. */
export async function noticesPage(notices: Site, { db }: ApiDeps): Promise<Page> {
  const { client, access, formToken, here, registration } = notices;
  const { notifications } = await listNotifications(db, client.clientToken, { limit: 20 });
  const set = html`<code>PUT /notices</code> with <code>{"url": "https://…"}</code>`;
  return {
    title: 'Notices',
    isLive: true,
    body: [
      html`<p>A message when a site fails, is suspended or recovers, when videos of it ended as failed, and when a signing secret is rotated.</p>`,
      healthNotice(notices, {
        noun: 'notice',
        register: html`Have your backend call ${set}: a URL on another system than your receivers.`,
        resume: html`have your backend call ${set} again`,
      }),
      registration &&
        html`<dl class="facts">
<dt>Sent to</dt><dd>${shownUrl(access, registration)}</dd>
</dl>`,
      noResult,
      registration && access === 'full' && actionForm(`${here}/test`, formToken, 'Send a test'),
      html`<h2>The last notices</h2>`,
      notifications.length === 0
        ? html`<p>None in the last 14 days.</p>`
        : table('The last notices', ['When', 'What', 'Site', 'State'], notifications.map(noticeRow(client))),
    ],
  };
}

/** A notice is the event `<kind>:<ms>` of the asset `<client token>` or `<client token>/secret`. The platform's name sites of others. */
const noticeRow = (to: Pick<Client, 'clientToken'>) => (n: ListedNotification) => {
  const [site = ''] = n.platformId.split('/');
  const link =
    to.clientToken === noticesClient('platform') ? site : html`<a href="${siteUrl(site)}">${site}</a>`;
  const kind = html`<code>${n.eventId.split(':')[0]}</code>`;
  return {
    id: n.notificationId,
    cells: [exactly(n.acceptedAt), kind, link, html`${badge(n.state)} ${nextAttempt(n)}`],
  };
};
