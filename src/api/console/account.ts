/** The pages of an account: its sites, and its notices. */
import { isClientToken, noticesClient } from '../../ids.js';
import { listNotifications } from '../../redis/notifications/notificationPages.js';
import type { ListedNotification } from '../../redis/notifications/notifications.js';
import { type Client, getClient } from '../../redis/records/clients.js';
import type { ConsoleSession } from '../../redis/records/sessions.js';
import { redirect, type Visit } from '../../web/door.js';
import { html } from '../../web/html.js';
import { actionForm, noResult, type Page, table } from '../../web/page.js';
import { bare, given, type Site, shownUrl, siteUrl } from '../../web/site.js';
import { sitesPart } from '../../web/sites.js';
import { badge, exactly, healthNotice, nextAttempt } from '../../web/words.js';
import type { ApiDeps } from '../deps.js';

/** GET /console: every site of the account, page by page; a client token as `site` leads to its page. */
export async function sitesPage({ ctx, session }: Visit<ConsoleSession>, { db }: ApiDeps) {
  const { accountId } = session;
  const asked = bare(given(ctx, 'site') ?? '');
  const found = isClientToken(asked) ? await getClient(db, asked) : undefined;
  if (found?.accountId === accountId) return redirect(ctx, siteUrl(found.clientToken));
  return { title: 'Sites', isLive: true, body: await sitesPart(ctx, db, accountId) };
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
      html`<p>A message when a site fails, is suspended or recovers, when videos of it ended as failed, when a signing secret is rotated, and when an operator changes, removes or puts back a URL.</p>`,
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
