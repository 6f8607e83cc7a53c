/** The pages of a customer and of its sites: what the publisher sees, and what an operator may do. */
import { hasPart, pageOfSites } from '../acts/clients.js';
import { workflowOf } from '../acts/notifications.js';
import { presentTime } from '../acts/present.js';
import { listFormer } from '../acts/registrations.js';
import { readEndpoint } from '../api/calls/clients.js';
import type { Services } from '../api/deps.js';
import { isNoticesClient } from '../ids.js';
import { audit } from '../operator/audit.js';
import { notificationCancel } from '../operator/notification.js';
import { cutPage, leastRole } from '../operator/operation.js';
import { requireAccount, requireClient } from '../operator/subjects.js';
import { mapInPages } from '../promises.js';
import type { Db } from '../redis/connection/db.js';
import { findAccounts, getAccount } from '../redis/records/accounts.js';
import { type Client, getClient, readEach } from '../redis/records/clients.js';
import { noticesRecipient } from '../redis/records/notices.js';
import { isAllowed } from '../redis/records/operatorAccess.js';
import { unlessUnreadable } from '../redis/records/secretBox.js';
import { html, type Piece } from '../web/html.js';
import {
  askedAsset,
  explainedAsset,
  filtersOf,
  listedNotifications,
  pageOfNotification,
} from '../web/notifications.js';
import { overview } from '../web/overview.js';
import { type PageAnswer, table } from '../web/page.js';
import { bare, both, given, home, type PageDeps, type Site, type SitePages, tabPage } from '../web/site.js';
import { sitesPart } from '../web/sites.js';
import { badge, count, operatorReader } from '../web/words.js';
import { cardsOf } from './forms.js';
import { hrefOf, named, namesOf, shownParts, siteUrl } from './names.js';
import type { DeskPage, DeskVisit } from './people.js';
import { answering, changeOf, readRequests, requestsPart } from './urlRequests.js';

const customersPerPage = 50;
/** Counts of a customer with more sites are of so many. */
const sitesAtMost = 1000;

/** GET /desk/accounts: every customer by name, with the state of its sites, what waits and what was given up. */
export const customersPage: DeskPage = async ({ ctx }, { db }) => {
  const [name = '', after] = ['name', 'cursor'].map((parameter) => given(ctx, parameter));
  const all = await findAccounts(db, (one) => hasPart(one, bare(name)));
  const cut = cutPage(all, { limit: customersPerPage, after }, (one) => [one.name, one.accountId]);
  const { next } = cut;
  const ids = cut.page.map(({ accountId }) => accountId);
  const page = await readEach(ids, (id) => getAccount(db, id));
  const names = new Map(page.map((account) => [account.accountId, account.name]));
  const rows = await mapInPages(page, 10, async ({ accountId, disabled, paused }) => {
    const { clients, next: isCut } = await pageOfSites(db, { accountId, limit: sitesAtMost });
    const states = new Map<string, number>();
    for (const { state } of clients) states.set(state, (states.get(state) ?? 0) + 1);
    const sum = (of: 'owed' | 'failed') => clients.reduce((n, { health }) => n + (health?.[of] ?? 0), 0);
    const shown = (n: number) => `${n.toLocaleString('en')}${isCut ? ' or more' : ''}`;
    return {
      cells: [
        [
          named(accountId, names),
          disabled && html` <span class="badge suspended">disabled</span>`,
          paused && html` <span class="badge paused">paused</span>`,
        ],
        shown(clients.length),
        [...states].map(([state, n]) => html`${shown(n)} ${badge(state)} `),
        shown(sum('owed')),
        (sum('failed') > 0 || isCut) &&
          html`<a href="${hrefOf(accountId)}?state=failed">${shown(sum('failed'))}</a>`,
      ],
    };
  });
  const more = String(new URLSearchParams({ ...(name && { name }), cursor: next ?? '' }));
  return {
    title: 'Customers',
    body: [
      html`<form class="row" action="${ctx.path}"><div><label for="name">A part of the name</label>
<input id="name" name="name" value="${name}" autocomplete="off" maxlength="128"></div><button class="quiet">Filter</button></form>`,
      rows.length === 0
        ? html`<p>There are no ${name ? 'such ' : ''}customers.</p>`
        : table('Customers', ['Customer', 'Sites', 'States', 'Waiting', 'Failed'], rows),
      next !== undefined && html`<p><a href="${ctx.path}?${more}" rel="next">More customers</a></p>`,
    ],
  };
};

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
<dt>Account</dt><dd><code>${id}</code>, ${found.disabled ? html`<span class="badge suspended">disabled</span>` : 'enabled'}${found.paused && html` <span class="badge paused">paused</span>`}</dd>
<dt>Client id</dt><dd><code>${found.clientId}</code></dd>
<dt>Scopes</dt><dd>${found.scopes.join(', ')}</dd>
<dt>Notices</dt><dd>${notices ? html`<a href="${siteUrl(notices.clientToken)}">how they stand</a>` : 'no URL is registered'}</dd>
</dl>
<h2>Sites</h2>`,
      await sitesPart(visit.ctx, db, id, siteUrl),
      await cardsOf(visit, { account_id: id, account: id, account_or_client: id }),
      await history(visit, db, id),
    ],
  };
};

/** Shows the newest entries of the audit that name an account, a client or a notification. */
async function history({ operator }: DeskVisit, db: Db, of: string): Promise<Piece> {
  const input = { since: Date.now() - 30 * 86_400_000, of };
  const { shown } = await audit.run(operator(), input, { limit: 20, isNewest: true });
  return html`<h2>Who did what</h2>${await shownParts(db, shown)}
<p><a href="/desk/do/audit?of=${of}">All of it, in the audit</a></p>`;
}

type DeskSite = DeskVisit & Site & { client: Client; customer: string };

const pages: SitePages<DeskSite> = {
  tabs: [
    {
      path: '',
      name: 'Overview',
      present: both((site: DeskSite, { db }) => requestsPart(site, db, site.client), overview),
    },
    { path: '/notifications', name: 'Notifications', present: both(listedNotifications, resending) },
    { path: '/asset', name: 'Why was it not sent?', present: both(explainedAsset, forgetting) },
    { path: '/actions', name: 'Change', present: actions },
    {
      path: '/audit',
      name: 'Who did what',
      present: (site, { db }) => history(site, db, site.client.clientToken),
    },
  ],
  parent: ({ client, customer }) => ({ name: customer, href: hrefOf(client.accountId) }),
  recover: ({ here, access }) =>
    access === 'read'
      ? html`<p>To recover them, ask an operator with the role support.</p>`
      : html`<p>To recover them: <a href="${here}/actions">Change</a>.</p>`,
  register: ({ client }) =>
    `Its publisher ${isNoticesClient(client.clientToken) ? 'must set one: PUT /notices' : 'must register one: POST /register_push_notifications'}.`,
  resume: ({ here, access }) =>
    access === 'read'
      ? 'an operator with the role support can resume it'
      : html`resume it (<a href="${here}/actions">Change</a>)`,
};

/** GET /desk/clients/{site}, and the pages below. */
export const sitePages = [
  ...pages.tabs.map((tab) => ({ path: tab.path, answer: sitePage(tabPage(pages, tab)) })),
  { path: '/notifications/:id', answer: sitePage(notificationPage) },
];

function sitePage(answer: (site: DeskSite, services: Services) => PageAnswer): DeskPage {
  return async (visit, services) => {
    const { site = '' } = visit.ctx.params;
    const client = await requireClient(visit.operator(), site);
    const names = await namesOf(services.db, [client.accountId]);
    const mayChange = isAllowed(visit.session.role, leastRole('support', client.clientToken));
    const about = {
      client,
      // No form is offered that would be refused.
      session: mayChange ? visit.session : { ...visit.session, role: 'look' as const },
      customer: names.get(client.accountId) ?? client.accountId,
      here: siteUrl(site),
      reader: operatorReader,
      access: mayChange ? ('full' as const) : ('read' as const),
    };
    visit.ctx.state.frame.back = home(about);
    return answer({ ...visit, ...about, ...(await readEndpoint(services.db, site)) }, services);
  };
}

/** Each change, with its consequences said before, and its fields filled with what is in force. */
async function actions(site: DeskSite, { config }: PageDeps): Promise<Piece> {
  const { clientToken } = site.client;
  const { owed, failed, failedSince } = site.health;
  const waits =
    owed === 0
      ? 'Nothing waits now'
      : `${count(owed, 'video')} ${owed === 1 ? 'waits and goes' : 'wait and go'} to the next URL`;
  const former = await formerOf(site);
  const [asked] = await readRequests(site, site.client);
  const answered = asked && { before: changeOf(asked), given: answering(asked) };
  const lost = {
    typed: { since: presentTime(failedSince) ?? '90d' },
    before: `${count(failed, 'video has', 'videos have')} failed.`,
  };
  return cardsOf(
    site,
    { client_token: clientToken, account_or_client: clientToken },
    {
      'registration change': { before: `${waits}.` },
      'registration reset': { before: `${waits}; until one is registered, nothing is sent.` },
      'registration restore':
        former === undefined || Object.keys(former).length === 0
          ? { before: former ? 'No former URL is kept.' : 'Former URLs cannot be read.', isIdle: true }
          : { before: `${waits}.`, choices: { former } },
      'registration accept': answered,
      'registration decline': answered,
      'registration resume': { before: owed > 0 && `${count(owed, 'video')} owed.` },
      'notification recover': lost,
      'notification dismiss': lost,
      'client set': {
        before: `The default is ${config.MAX_IN_FLIGHT} attempts in flight, any number a second, quiet period 0 s.`,
      },
      'client delete': {
        before: `This cannot be undone.${owed > 0 ? ` It cancels ${count(owed, 'owed video')}.` : ''}`,
      },
    },
    ({ input }) => !('platform_id' in input.shape) && (asked !== undefined || !('request' in input.shape)),
  );
}

/** Returns the former URLs that can be put back, by their references, the newest first; undefined if this process may read no secret. */
async function formerOf({ operator, client }: DeskSite): Promise<Record<string, string> | undefined> {
  const kept = await listFormer(operator(), { client }).catch(unlessUnreadable);
  return (
    kept &&
    Object.fromEntries(
      kept.map(({ former, url, given_up_at: at }) => [former, `${url}, until ${at.slice(0, 16)}`]),
    )
  );
}

/** What the list shows can be sent again, once it was counted. */
async function resending(site: DeskSite, { db }: PageDeps): Promise<Piece> {
  if (site.access !== 'full') return '';
  const asked = { ...filtersOf(site), platform_id: (await askedAsset(site, db))?.platformId };
  const filters = Object.fromEntries(Object.entries(asked).map(([name, value]) => [name, value ?? '']));
  const about = { client_token: site.client.clientToken, ...filters };
  return mayName(asked.platform_id) && cardsOf(site, about, {}, ({ input }) => 'failure' in input.shape);
}

/** An asset that was asked for can be forgotten. */
async function forgetting(site: DeskSite, { db }: PageDeps): Promise<Piece> {
  if (site.access !== 'full') return '';
  const platform_id = (await askedAsset(site, db))?.platformId;
  const about = { client_token: site.client.clientToken, platform_id: platform_id ?? '' };
  return (
    platform_id &&
    mayName(platform_id) &&
    cardsOf(site, about, {}, ({ group, input }) => group === 'Delete' && 'platform_id' in input.shape)
  );
}

/** A form loses the blanks at the ends of an id, and would be about another video. */
const mayName = (id = ''): boolean => id === id.trim();

function notificationPage(site: DeskSite, { db }: Services): PageAnswer {
  return pageOfNotification(site, db, async (n) => [
    await shownParts(db, [{ facts: await workflowOf(site.operator(), n) }]),
    html`<p><a href="${site.here}/asset?platform_id=${encodeURIComponent(n.platformId)}">Why: the last event of this asset</a></p>`,
    // Only what waits can be cancelled.
    await cardsOf(
      site,
      { notification_id: n.notificationId },
      {},
      (operation) => n.state === 'waiting' || operation !== notificationCancel,
    ),
  ]);
}
