/** The pages of a customer and of its sites: what the publisher sees, and what an operator may do. */

import { workflowOf } from '../acts/notifications.js';
import { readEndpoint } from '../api/calls/clients.js';
import type { Services } from '../api/deps.js';
import { isNoticesClient } from '../ids.js';
import { audit } from '../operator/audit.js';
import { requireAccount, requireClient } from '../operator/operation.js';
import { type Client, getClient } from '../redis/records/clients.js';
import { noticesRecipient } from '../redis/records/notices.js';
import { html, type Piece } from '../web/html.js';
import { explainedAsset, listedNotifications, pageOfNotification } from '../web/notifications.js';
import { overview } from '../web/overview.js';
import type { PageAnswer } from '../web/page.js';
import { home, type Site, type SitePages, tabPage } from '../web/site.js';
import { sitesPart } from '../web/sites.js';
import { count, operatorReader } from '../web/words.js';
import { cardsOf, shownParts } from './forms.js';
import type { DeskPage, DeskVisit } from './people.js';

/** GET /desk/accounts/{id} */
export const customerPage: DeskPage = async (visit, { db }) => {
  const { id = '' } = visit.ctx.params;
  const found = await requireAccount(visit.operator(), id);
  const notices = await getClient(db, noticesRecipient(found));
  return {
    title: found.name || id,
    isLive: true,
    body: [
      html`<dl class="facts">
<dt>Account</dt><dd><code>${id}</code>, ${found.disabled ? html`<span class="badge suspended">disabled</span>` : 'enabled'}</dd>
<dt>Client id</dt><dd><code>${found.clientId}</code></dd>
<dt>Scopes</dt><dd>${found.scopes.join(', ')}</dd>
<dt>Notices</dt><dd>${notices ? html`<a href="${siteUrl(notices.clientToken)}">how they stand</a>` : 'no URL is registered'}</dd>
</dl>
<h2>Sites</h2>`,
      await sitesPart(visit.ctx, db, id, siteUrl),
      cardsOf(
        visit,
        { account_id: id, account: id, account_or_client: id },
        { 'account set': `Now: ${found.scopes.join(' ')}.` },
      ),
      await history(visit, id),
    ],
  };
};

export const siteUrl = (clientToken: string): string => `/desk/clients/${clientToken}`;

/** Shows the newest entries of the audit that name an account, a client or a notification. */
async function history({ operator }: DeskVisit, of: string): Promise<Piece> {
  const input = { since: Date.now() - 30 * 86_400_000, of };
  const { shown } = await audit.run(operator(), input, { limit: 20, isNewest: true });
  return html`<h2>Who did what</h2>${shownParts(shown)}
<p><a href="/desk/do/audit?of=${of}">All of it, in the audit</a></p>`;
}

type DeskSite = DeskVisit & Site & { client: Client };

const pages: SitePages<DeskSite> = {
  tabs: [
    { path: '', name: 'Overview', present: overview },
    { path: '/notifications', name: 'Notifications', present: listedNotifications },
    { path: '/asset', name: 'Why was it not sent?', present: explainedAsset },
    { path: '/actions', name: 'Change', present: actions },
    { path: '/audit', name: 'Who did what', present: (site) => history(site, site.client.clientToken) },
  ],
  parent: ({ client }) => ({ name: 'Customer', href: `/desk/accounts/${client.accountId}` }),
  recover: ({ here }) => html`<p>To recover them: <a href="${here}/actions">Change</a>.</p>`,
  register: ({ client }) =>
    `Its publisher ${isNoticesClient(client.clientToken) ? 'sets one: PUT /notices' : 'registers one: POST /register_push_notifications'}.`,
  resume: ({ here }) => html`resume it (<a href="${here}/actions">Change</a>)`,
};

/** GET /desk/clients/{site}, and the pages below. */
export const sitePages = [
  ...pages.tabs.map((tab) => ({ path: tab.path, answer: sitePage(tabPage(pages, tab)) })),
  { path: '/notifications/:id', answer: sitePage(notificationPage) },
];

function sitePage(answer: (site: DeskSite, services: Services) => PageAnswer): DeskPage {
  return async (visit, services) => {
    const { site = '' } = visit.ctx.params;
    const about = {
      client: await requireClient(visit.operator(), site),
      here: siteUrl(site),
      reader: operatorReader,
      access: visit.session.role === 'look' ? ('read' as const) : ('full' as const),
    };
    visit.ctx.state.frame.back = home(about);
    return answer({ ...visit, ...about, ...(await readEndpoint(services.db, site)) }, services);
  };
}

/** Each change, with its consequences said before. */
function actions(site: DeskSite): Piece {
  const { clientToken, maxInFlight = 'default', maxPerSecond = 'default', quietSeconds = 0 } = site.client;
  const { owed } = site.health;
  const waits =
    owed === 0
      ? 'Nothing waits now'
      : `${count(owed, 'video')} ${owed === 1 ? 'waits and goes' : 'wait and go'} to the next URL`;
  return cardsOf(
    site,
    { client_token: clientToken, account_or_client: clientToken },
    {
      'registration change': `${waits}.`,
      'registration reset': `${waits}; until one is registered, nothing is sent.`,
      'registration resume': owed > 0 && `${count(owed, 'video')} owed.`,
      'client set': `Now: in flight ${maxInFlight}, a second ${maxPerSecond}, quiet period ${quietSeconds} s.`,
      'client delete': `This cannot be undone.${owed > 0 ? ` It cancels ${count(owed, 'owed video')}.` : ''}`,
    },
  );
}

function notificationPage(site: DeskSite, { db }: Services): PageAnswer {
  return pageOfNotification(site, db, async (n) => [
    shownParts([{ facts: await workflowOf(site.operator(), n) }]),
    html`<p><a href="${site.here}/asset?platform_id=${encodeURIComponent(n.platformId)}">Why: the last event of this asset</a></p>`,
    cardsOf(site, { notification_id: n.notificationId }),
  ]);
}
