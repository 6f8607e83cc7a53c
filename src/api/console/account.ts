/** The pages of an account: its sites, and its notices. */
import type { Middleware } from 'koa';
import { clientTokenPattern, isClientToken } from '../../ids.js';
import { originOf } from '../../outgoing/target.js';
import { listNotifications } from '../../redis/notifications/notificationPages.js';
import type { ListedNotification } from '../../redis/notifications/notifications.js';
import { getClient, pageOfClients } from '../../redis/records/clients.js';
import { type Endpoint, getEndpoint, getEndpoints } from '../../redis/records/endpoint.js';
import { getRegistration } from '../../redis/records/registrations.js';
import { badParameter } from '../apiError.js';
import { findNoticesClient } from '../endpoints/notices.js';
import { notACursor } from '../reference/schemas.js';
import type { ApiDeps } from '../step.js';
import { given, pageSteps, redirect } from './access.js';
import { html, type Piece } from './html.js';
import { actionForm, answerPage, noResult, table } from './page.js';
import { siteUrl } from './site.js';
import { badge, exactly, faultInWords, moment, nextAttempt, shownState, standing } from './words.js';

const perPage = 50;

/** GET /console: every site of the account, page by page; `site` leads to one. */
export function sitesPage(deps: ApiDeps): Middleware[] {
  const { db } = deps;
  return pageSteps(deps, async (ctx) => {
    const { accountId } = ctx.state.session;
    const asked = given(ctx, 'site');
    const found = asked !== undefined && isClientToken(asked) ? await getClient(db, asked) : undefined;
    if (found?.accountId === accountId) return redirect(ctx, siteUrl(found.clientToken));
    const cursor = given(ctx, 'cursor');
    if (cursor !== undefined && !clientTokenPattern.test(cursor)) throw badParameter(`cursor ${notACursor}`);
    const { clients, next } = await pageOfClients(db, accountId, { limit: perPage, after: cursor });
    const tokens = clients.map(({ clientToken }) => clientToken);
    const [endpoints, registrations] = await Promise.all([
      getEndpoints(db, tokens),
      Promise.all(tokens.map((token) => getRegistration(db, token))),
    ]);
    const rows = clients.map(({ clientToken, name }, i) => {
      const [health, registration] = [endpoints[i] as Endpoint, registrations[i]];
      return {
        id: `site-${clientToken}`,
        cells: [
          html`<a href="${siteUrl(clientToken)}">${name || clientToken}</a> <code class="faint">${clientToken}</code>`,
          html`${badge(shownState(health, registration !== undefined))} ${registration && faultInWords(health)}`,
          health.owed.toLocaleString('en'),
          moment(health.lastSuccessAt),
          registration && new URL(registration.url).host,
        ],
      };
    });
    answerPage(ctx, {
      title: 'Sites',
      isLive: true,
      body: [
        asked !== undefined &&
          html`<div class="notice bad" role="alert"><p>This account has no site ${asked.slice(0, 64)}.</p></div>`,
        html`<form class="row" action="/console"><div><label for="site">Go to a site</label>
<input id="site" name="site" autocomplete="off" placeholder="its client token" maxlength="64" required></div><button class="quiet">Go</button></form>`,
        rows.length === 0
          ? html`<p>There are no sites here.</p>`
          : table('Sites', ['Site', 'State', 'Videos that wait', 'Last success', 'Sent to'], rows),
        next !== undefined &&
          html`<p><a href="/console?cursor=${next}" rel="next">Next ${perPage} sites</a></p>`,
      ],
    });
  });
}

/** GET /console/notices: the URL of the account's notices, how it stands, and the newest 20 notices. */
export function noticesPage(deps: ApiDeps): Middleware[] {
  const { db } = deps;
  return pageSteps(deps, findNoticesClient(db), async (ctx) => {
    const { client, session, formToken } = ctx.state;
    const [health, registration, { notifications }] = await Promise.all([
      getEndpoint(db, client.clientToken),
      getRegistration(db, client.clientToken),
      listNotifications(db, client.clientToken, { limit: 20 }),
    ]);
    const isFull = session.access === 'full';
    const set = html`<code>PUT /notices</code> with <code>{"url": "https://…"}</code>`;
    answerPage(ctx, {
      title: 'Notices',
      isLive: true,
      body: [
        html`<p>A message when a site fails, is suspended or recovers, and when a signing secret is rotated.</p>`,
        standing(health, {
          isRegistered: registration !== undefined,
          noun: 'notice',
          register: html`Have your backend call ${set}: a URL on another system than your receivers.`,
          resume: html`have your backend call ${set} again`,
        }),
        registration &&
          html`<dl class="facts">
<dt>Sent to</dt><dd><code>${isFull ? registration.url : originOf(registration.url)}</code>, in force since ${exactly(registration.registeredAtMs)}</dd>
</dl>`,
        noResult,
        registration && isFull && actionForm('/console/notices/test', formToken, 'Send a test'),
        html`<h2>The last notices</h2>`,
        notifications.length === 0
          ? html`<p>None in the last 14 days.</p>`
          : table('The last notices', ['When', 'What', 'Site', 'State'], notifications.map(noticeRow)),
      ],
    });
  });
}

/** A notice is the event `<kind>:<ms>` of the asset `<client token>` or `<client token>/secret`. */
function noticeRow(n: ListedNotification): { id: string; cells: Piece[] } {
  const [kind] = n.eventId.split(':');
  const [site = ''] = n.platformId.split('/');
  return {
    id: n.notificationId,
    cells: [
      exactly(n.acceptedAt),
      html`<code>${kind}</code>`,
      html`<a href="${siteUrl(site)}">${site}</a>`,
      html`${badge(n.state)} ${nextAttempt(n)}`,
    ],
  };
}
