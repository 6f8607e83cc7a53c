/** The sites of an account, page by page. */
import type { Context } from 'koa';
import { pageOfSites, type Site } from '../acts/clients.js';
import { badParameter } from '../http/apiError.js';
import { notACursor } from '../http/schemas.js';
import { clientTokenPattern } from '../ids.js';
import type { Db } from '../redis/connection/db.js';
import { siteFilters } from '../redis/records/endpoint.js';
import { html, type Piece } from './html.js';
import { table } from './page.js';
import { bare, given, siteUrl } from './site.js';
import { badge, faultInWords, fromNow, stateField } from './words.js';

const perPage = 50;

/** Shows the sites of an account, page by page. @param href of a site's pages */
export async function sitesPart(
  ctx: Pick<Context, 'path' | 'querystring'>,
  db: Db,
  accountId: string,
  href = siteUrl,
): Promise<Piece> {
  const [cursor, wanted, part = ''] = ['cursor', 'state', 'site'].map((name) => given(ctx, name));
  if (cursor !== undefined && !clientTokenPattern.test(cursor)) throw badParameter(`cursor ${notACursor}`);
  const filter = { accountId, name: bare(part), state: wanted, after: cursor, limit: perPage };
  const { clients, next } = await pageOfSites(db, filter);
  const rows = clients.map((site) => siteRow(site, href(site.clientToken)));
  const columns = ['Site', 'State', 'Waiting', 'Failed', 'Last success', 'Sent to'];
  const none = `There are no ${cursor ? 'further ' : wanted || part ? 'such ' : ''}sites here.`;
  const asked = Object.entries({ state: wanted ?? '', site: part, cursor: next ?? '' });
  const more = String(new URLSearchParams(asked.filter(([, value]) => value)));
  return [
    html`<form class="row" action="${ctx.path}"><div><label for="site">Site</label>
<input id="site" name="site" value="${part}" autocomplete="off" placeholder="part of name, token or host" maxlength="128"></div>${stateField(siteFilters, wanted)}<button class="quiet">Filter</button></form>`,
    rows.length === 0 ? html`<p>${none}</p>` : table('Sites', columns, rows),
    next !== undefined && html`<p><a href="${ctx.path}?${more}" rel="next">More sites</a></p>`,
  ];
}

function siteRow({ clientToken, name, health, registration, state }: Site, href: string) {
  return {
    id: `site-${clientToken}`,
    cells: [
      html`<a href="${href}">${name || clientToken}</a> <code class="faint">${clientToken}</code>`,
      html`${badge(state)} ${health ? registration && faultInWords(health) : 'its data is broken'}`,
      health?.owed.toLocaleString('en'),
      health &&
        health.failed > 0 &&
        html`<a href="${href}/notifications?state=failed">${health.failed.toLocaleString('en')}</a>`,
      health && fromNow(health.lastSuccessAt),
      registration && new URL(registration.url).host,
    ],
  };
}
