import type { Middleware } from 'koa';
import { clientTokenPattern, isClientToken } from '../../../ids.js';
import { type Client, getClient, pageOfClients } from '../../../redis/records/clients.js';
import { type Endpoint, getEndpoints } from '../../../redis/records/endpoint.js';
import { getRegistration, type Registration } from '../../../redis/records/registrations.js';
import { badParameter } from '../../apiError.js';
import { notACursor } from '../../reference/schemas.js';
import type { ApiDeps, Step } from '../../step.js';
import type { SessionState } from '../access/session.js';
import { type Html, html } from '../html.js';
import { answerPage, live } from '../layout.js';
import { given, pageSteps } from '../pageSteps.js';
import { moment, stateWords } from './words.js';

const perPage = 50;

/** GET /console: every site of the account, page by page; `site` leads to one. */
export function sitesPage(deps: ApiDeps): Middleware[] {
  return pageSteps(deps, async (ctx) => {
    const asked = given(ctx, 'site');
    if (asked !== undefined && (await leadTo(deps, ctx, asked))) return;
    const cursor = given(ctx, 'cursor');
    if (cursor !== undefined && !clientTokenPattern.test(cursor)) throw badParameter(`cursor ${notACursor}`);
    const { clients, next } = await pageOfClients(deps.db, ctx.state.session.accountId, {
      limit: perPage,
      after: cursor,
    });
    const tokens = clients.map(({ clientToken }) => clientToken);
    const [health, registrations] = await Promise.all([
      getEndpoints(deps.db, tokens),
      Promise.all(tokens.map((token) => getRegistration(deps.db, token))),
    ]);
    const rows = clients.map((client, i) => row(client, health[i] as Endpoint, registrations[i]));
    answerPage(ctx, {
      title: 'Sites',
      session: ctx.state,
      body: [
        asked !== undefined &&
          html`<div class="notice bad" role="alert"><p>This account has no site ${asked.slice(0, 64)}.</p></div>`,
        goTo,
        live(ctx.url, [
          rows.length === 0 ? html`<p>There are no sites here.</p>` : table(rows),
          next !== undefined &&
            html`<p><a href="/console?cursor=${next}" rel="next">Next ${perPage} sites</a></p>`,
        ]),
      ],
    });
  });
}

async function leadTo(
  { db }: ApiDeps,
  ctx: Parameters<Step<SessionState>>[0],
  site: string,
): Promise<boolean> {
  const client = isClientToken(site) ? await getClient(db, site) : undefined;
  if (client?.accountId !== ctx.state.session.accountId) return false;
  ctx.status = 303;
  ctx.set('Location', `/console/sites/${client.clientToken}`);
  return true;
}

const goTo = html`<form class="row" action="/console"><div><label for="site">Go to a site</label>
<input id="site" name="site" autocomplete="off" placeholder="its client token" maxlength="64" required></div><button class="quiet">Go</button></form>`;

const table = (
  rows: Html[],
): Html => html`<div class="scroll" tabindex="0" role="region" aria-label="Sites"><table>
<thead><tr><th scope="col">Site</th><th scope="col">State</th><th scope="col" class="number">Owed</th><th scope="col">Last success</th><th scope="col">Sent to</th></tr></thead>
<tbody>${rows}</tbody></table></div>`;

function row({ clientToken, name }: Client, health: Endpoint, registration: Registration | undefined): Html {
  const state = registration ? health.state : 'not_registered';
  return html`<tr id="site-${clientToken}"><th scope="row"><a href="/console/sites/${clientToken}">${name || clientToken}</a> <code class="faint">${clientToken}</code></th>
<td><span class="badge ${state}">${stateWords[state]}</span></td>
<td class="number">${health.owed.toLocaleString('en')}</td>
<td>${moment(health.lastSuccessAt)}</td>
<td>${registration ? new URL(registration.url).host : html`<span class="faint">nowhere yet</span>`}</td></tr>
`;
}
