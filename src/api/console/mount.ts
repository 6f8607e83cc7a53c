/** The routes of the console's pages and forms, and the frame of a site's pages. */
import type Router from '@koa/router';
import type { Middleware } from 'koa';
import type { ApiDeps } from '../step.js';
import { clientPage, openEndpoint, openPage, signOutEndpoint } from './access.js';
import { noticesPage, sitesPage } from './account.js';
import { actions, answerAction, noticesTest, siteActions, verify } from './actions.js';
import { html, type Piece } from './html.js';
import { explainedAsset, listedNotifications, notificationPage } from './notifications.js';
import { overview } from './overview.js';
import {
  actionForm,
  answerPage,
  composePage,
  home,
  noResult,
  type SitePart,
  type SiteState,
  tabsOf,
} from './page.js';
import { count, failedNotice, healthNotice } from './words.js';

const tabs: { path: string; name: string; present: SitePart }[] = [
  { path: '', name: 'Overview', present: overview },
  { path: '/notifications', name: 'Notifications', present: listedNotifications },
  { path: '/asset', name: 'Why did I get nothing?', present: explainedAsset },
  { path: '/actions', name: 'Actions', present: actions },
  { path: '/verify', name: 'Verify signatures', present: verify },
];

export function mountConsole(router: Router, deps: ApiDeps): void {
  router.get('/console/open', ...openPage);
  router.post('/console/open', ...openEndpoint(deps));
  router.post('/console/sign_out', ...signOutEndpoint(deps));
  router.get('/console', ...sitesPage(deps));
  router.get('/console/notices', ...clientPage(deps, noticesPage));
  router.post('/console/notices/test', ...answerAction(deps, noticesTest));
  for (const tab of tabs) router.get(`/console/sites/:site${tab.path}`, ...sitePage(deps, tab));
  router.get('/console/sites/:site/notifications/:id', ...clientPage(deps, notificationPage));
  for (const [path, action] of Object.entries(siteActions)) {
    router.post(`/console/sites/:site/${path}`, ...answerAction(deps, action));
  }
  router.get('/console/{*nowhere}', ...composePage());
}

/** Builds a page of one site: a first line that says what is wrong now, the tabs, and the tab's own part. */
const sitePage = (deps: ApiDeps, { path, present }: (typeof tabs)[number]): Middleware[] =>
  clientPage(deps, async (ctx) => {
    const { client, here } = ctx.state;
    const toActions = html`<a href="${here}/actions">Actions</a>`;
    // The receivers to paste are large, and never change.
    const isLive = path !== '/verify';
    answerPage(ctx, {
      title: home(client).name,
      isLive,
      body: [
        isLive && failedNotice(ctx.state.health, recovery(ctx.state, path)),
        isLive &&
          healthNotice(ctx.state, {
            noun: 'video',
            register: html`Send a test to your receiver’s URL (${toActions}), then have your backend register the URL: <code>POST /register_push_notifications</code>.`,
            resume: html`press Resume (${toActions})`,
          }),
        tabsOf(here, tabs, path),
        await present(ctx, deps),
      ],
    });
  });

/** Shows the form that recovers what failed. */
function recovery({ health, session, formToken, here }: SiteState, path: string): Piece {
  if (session.access !== 'full') return '';
  const since = html`<input type="hidden" name="since" value="${new Date(health.failedSince ?? 0).toISOString()}">`;
  const words = `Recover ${count(health.failed, 'video')}`;
  return [path !== '/actions' && noResult, actionForm(`${here}/recover`, formToken, words, since)];
}
