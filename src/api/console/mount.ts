/** The door of the console: who may see a page and send a form, what a page is about, and the routes. */
import type Router from '@koa/router';
import { ownClient } from '../../acts/subjects.js';
import { ApiError } from '../../http/apiError.js';
import { fingerprintOf } from '../../redis/records/accounts.js';
import { type ConsoleSession, consoleSessions } from '../../redis/records/sessions.js';
import { createDoor, redirect, type Visit } from '../../web/door.js';
import { html, type Piece } from '../../web/html.js';
import { explainedAsset, listedNotifications, notificationPage } from '../../web/notifications.js';
import { overview } from '../../web/overview.js';
import { actionForm, type Frame, hidden, noResult, type PageAnswer } from '../../web/page.js';
import { home, type PageDeps, type Site, type SitePages, siteUrl, tabPage } from '../../web/site.js';
import { count, publisherAt } from '../../web/words.js';
import { findNoticesClient } from '../call.js';
import { readEndpoint } from '../calls/clients.js';
import type { ApiDeps } from '../deps.js';
import { auditCall } from '../steps/auditCall.js';
import { noticesPage, sitesPage } from './account.js';
import { type Action, actions, answerAction, lastRequest, noticesTest, siteActions } from './actions.js';
import { verify } from './verify.js';

const frame: Frame = { product: 'Notifications console', back: { name: 'Sites', href: '/console' } };

const consoleDoor = (deps: ApiDeps) =>
  createDoor({
    db: deps.db,
    path: '/console',
    frame,
    reached: deps.config,
    sessions: consoleSessions,
    around: ({ accountName, access }) => ({
      links: [frame.back, { name: 'Notices', href: '/console/notices' }],
      who: html`${accountName}${access === 'read' && html` <span class="badge">read only</span>`}`,
    }),
    how: html`<p>A link opens this console; it works once, for 15 minutes, and a session lasts 8 hours at most.</p>
<ol>
<li>In your company’s own pages for these notifications, follow the link to the console: each time it makes a new one.</li>
<li>Where there is no such page, ask ${deps.config.OPERATOR_CONTACT} for a link, or have your backend call <code>POST /console_sessions</code> with an access token and open the <code>url</code> that it answers.</li>
</ol>`,
    async record(ctx, { accountId, access, by }, secret, what) {
      const caller = { ctx, token: { accountId, fingerprint: `console:${fingerprintOf(secret)}`, by } };
      await auditCall(deps, caller, `console ${what}`, { security: 'look', about: { access } });
    },
    apart: (now, next) =>
      now.accountId === next.accountId ? undefined : [now.accountName, next.accountName],
    signedOut: (ctx) => redirect(ctx, '/console/open'),
  });

const sitePages: SitePages<Site> = {
  tabs: [
    { path: '', name: 'Overview', present: firstPage },
    { path: '/notifications', name: 'Notifications', present: listedNotifications },
    { path: '/asset', name: 'Why did I get nothing?', present: explainedAsset },
    { path: '/actions', name: 'Actions', present: actions },
    // The receivers to paste are large, and never change.
    { path: '/verify', name: 'Verify signatures', present: verify, isStill: true },
  ],
  recover: recovery,
  register: ({ here }) =>
    html`Send a test to your receiver’s URL (<a href="${here}/actions">Actions</a>), then have your backend register the URL: <code>POST /register_push_notifications</code>.`,
  resume: ({ here }) => html`press Resume (<a href="${here}/actions">Actions</a>)`,
};

async function firstPage(site: Site, deps: PageDeps): Promise<Piece> {
  const asked = await lastRequest(site, deps);
  return [asked && html`<p>${asked}</p>`, await overview(site, deps)];
}

export function mountConsole(router: Router, deps: ApiDeps): void {
  const door = consoleDoor(deps);

  /** Composes a page of the account: it takes a session, and counts towards the account's rate of pages. */
  const accountPage = (answer: (visit: Visit<ConsoleSession>, deps: ApiDeps) => PageAnswer) =>
    door.page(async (visit) => {
      const { accountId } = visit.session;
      await deps.countCall(visit.ctx, 'console', accountId);
      return deps.inTurn(visit.ctx, `${accountId} console`, async () => answer(visit, deps));
    });

  const clientPage = (answer: (site: Site, deps: ApiDeps) => PageAnswer) =>
    accountPage(async (visit) => {
      const found = await findClient(deps, visit);
      return answer({ ...found, ...(await readEndpoint(deps.db, found.client.clientToken)) }, deps);
    });

  const actionAnswer = (action: Action) =>
    door.form(async (visit) => {
      const sent = await findClient(deps, visit);
      if (sent.access === 'full') return answerAction(deps, action, sent);
      throw new ApiError('insufficient_scope', 'This session may look, but not change or send anything');
    });

  door.mount(router);
  router.get('/console', accountPage(sitesPage));
  router.get('/console/notices', clientPage(noticesPage));
  router.post('/console/notices/test', actionAnswer(noticesTest));
  for (const tab of sitePages.tabs)
    router.get(`/console/sites/:site${tab.path}`, clientPage(tabPage(sitePages, tab)));
  router.get('/console/sites/:site/notifications/:id', clientPage(notificationPage));
  for (const [path, action] of Object.entries(siteActions))
    router.post(`/console/sites/:site/${path}`, actionAnswer(action));
  const nowhere = () => undefined;
  router.get('/console/{*nowhere}', door.outside(nowhere));
}

/**
 * Finds the client of the path's `site`, or else the client that gets the account's notices, and the account in the form of an access
 * token.
 * @throws ApiError 404, the same for a client that does not exist and for another account's
 */
async function findClient<From extends Visit<ConsoleSession>>(deps: ApiDeps, visit: From) {
  const { db } = deps;
  const { site: clientToken } = visit.ctx.params;
  const { accountId, scopes, generation, fingerprint, access, by, maySeeSecrets } = visit.session;
  const token = { accountId, scopes, generation, fingerprint: `console:${fingerprint}`, by, maySeeSecrets };
  const client = clientToken
    ? await ownClient(db, { clientToken, accountId })
    : { ...(await findNoticesClient(db, token)), name: 'Notices' };
  const here = clientToken ? siteUrl(clientToken) : '/console/notices';
  visit.ctx.state.frame.back = home({ client, here });
  const countPiece = deps.countPieces('console', accountId);
  const reader = publisherAt(deps.config.OPERATOR_CONTACT);
  return { ...visit, token, client, here, access, reader, countPiece };
}

function recovery({ health, access, formToken, here }: Site, path: string, sinceMs: number): Piece {
  if (access !== 'full') return '';
  const since = hidden('since', new Date(sinceMs).toISOString());
  const words = `Recover ${count(health.failed, 'video')}`;
  return [path !== '/actions' && noResult, actionForm(`${here}/recover`, formToken, words, since)];
}
