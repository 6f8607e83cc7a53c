import type { Middleware } from 'koa';
import { listNotifications, orderOf } from '../../../redis/notifications/notificationPages.js';
import { type ListedNotification, notificationStates } from '../../../redis/notifications/notifications.js';
import { cursorOf, readFilter } from '../../endpoints/notifications.js';
import type { ApiDeps } from '../../step.js';
import { type Html, html } from '../html.js';
import { live } from '../layout.js';
import { given, sitePageSteps } from '../pageSteps.js';
import { answerSitePage, siteUrl } from '../siteFrame.js';
import { exactly, moment, stateSentence } from './words.js';

const perPage = '50';

/** GET /console/sites/{site}/notifications: newest first, page by page, by state and asset. */
export function notificationsPage(deps: ApiDeps): Middleware[] {
  return sitePageSteps(deps, async (ctx) => {
    const { clientToken } = ctx.state.client;
    const asked = {
      state: given(ctx, 'state'),
      platform_id: given(ctx, 'platform_id'),
      cursor: given(ctx, 'cursor'),
    };
    const filter = readFilter({ ...asked, limit: perPage });
    const { notifications, next } = await listNotifications(deps.db, clientToken, filter);
    const nextCursor = next && cursorOf(orderOf(filter), next);
    const here = `${siteUrl(clientToken)}/notifications`;
    const more = nextCursor && `${here}?${new URLSearchParams({ ...defined(asked), cursor: nextCursor })}`;
    const list = [
      notifications.length === 0 ? none(more) : table(clientToken, notifications),
      more && html`<p><a href="${more}" rel="next">Older notifications</a></p>`,
    ];
    answerSitePage(ctx, {
      tab: '/notifications',
      body: [
        filters(here, asked),
        // A later page is not updated.
        asked.cursor === undefined ? live(ctx.url, list) : list,
      ],
    });
  });
}

type Asked = Record<'state' | 'platform_id' | 'cursor', string | undefined>;

const defined = (asked: Asked): Record<string, string> =>
  Object.fromEntries(Object.entries(asked).filter((pair): pair is [string, string] => pair[1] !== undefined));

const filters = (here: string, asked: Asked): Html => html`<form class="row" action="${here}">
<div><label for="state">State</label><select id="state" name="state"><option value="">any</option>${notificationStates.map((state) => html`<option value="${state}" ${state === asked.state && html`selected`}>${state.replace('_', ' ')}</option>`)}</select></div>
<div><label for="platform_id">Asset</label><input id="platform_id" name="platform_id" value="${asked.platform_id}" autocomplete="off" spellcheck="false" placeholder="its platform_id"></div>
<button class="quiet">Filter</button></form>`;

/** A filter that matches few notifications is searched in several requests. */
const none = (more: string | undefined): Html =>
  more
    ? html`<p>None among the newest; look further back:</p>`
    : html`<p>There are no such notifications.</p>`;

const table = (clientToken: string, notifications: readonly ListedNotification[]): Html =>
  html`<div class="scroll" tabindex="0" role="region" aria-label="Notifications"><table>
<thead><tr><th scope="col">Asset</th><th scope="col">State</th><th scope="col">Accepted</th><th scope="col">Next attempt</th></tr></thead>
<tbody>${notifications.map((one) => row(clientToken, one))}</tbody></table></div>`;

function row(clientToken: string, n: ListedNotification): Html {
  return html`<tr id="${n.notificationId}"><th scope="row"><a href="${siteUrl(clientToken)}/notifications/${n.notificationId}">${n.platformId}</a></th>
<td><span class="badge ${n.state}" title="${stateSentence(n)}">${n.state.replace('_', ' ')}</span></td>
<td>${exactly(n.acceptedAt)}</td>
<td>${n.state === 'waiting' && (n.nextAttemptAt === undefined ? stateSentence(n) : moment(n.nextAttemptAt))}</td></tr>
`;
}
