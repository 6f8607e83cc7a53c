/** The routes of the console's pages and forms, and the frame of a site's pages. */
import type Router from '@koa/router';
import type { Middleware } from 'koa';
import type { ApiDeps } from '../step.js';
import { clientPage, consoleDoor } from './access.js';
import { noticesPage, sitesPage } from './account.js';
import { actions, answerAction, noticesTest, siteActions, verify } from './actions.js';
import { html, type Piece } from './html.js';
import { explainedAsset, listedNotifications, notificationPage } from './notifications.js';
import { overview } from './overview.js';
import { actionForm, noResult } from './page.js';
import { answerTab, type SiteState, type Tab } from './site.js';
import { count, failedNotice } from './words.js';

const tabs: Tab[] = [
  { path: '', name: 'Overview', present: overview },
  { path: '/notifications', name: 'Notifications', present: listedNotifications },
  { path: '/asset', name: 'Why did I get nothing?', present: explainedAsset },
  { path: '/actions', name: 'Actions', present: actions },
  // The receivers to paste are large, and never change.
  { path: '/verify', name: 'Verify signatures', present: verify, isStill: true },
];

export function mountConsole(router: Router, deps: ApiDeps): void {
  const door = consoleDoor(deps);
  door.mount(router);
  router.get('/console', ...sitesPage(deps));
  router.get('/console/notices', ...clientPage(deps, noticesPage));
  router.post('/console/notices/test', ...answerAction(deps, noticesTest));
  for (const tab of tabs) router.get(`/console/sites/:site${tab.path}`, ...sitePage(deps, tab));
  router.get('/console/sites/:site/notifications/:id', ...clientPage(deps, notificationPage));
  for (const [path, action] of Object.entries(siteActions)) {
    router.post(`/console/sites/:site/${path}`, ...answerAction(deps, action));
  }
  router.get('/console/{*nowhere}', ...door.outside());
}

const sitePage = (deps: ApiDeps, tab: Tab): Middleware[] =>
  clientPage(deps, (ctx) => {
    const toActions = html`<a href="${ctx.state.here}/actions">Actions</a>`;
    return answerTab(ctx, deps, tab, {
      tabs,
      above: failedNotice(ctx.state.health, recovery(ctx.state, tab.path)),
      register: html`Send a test to your receiver’s URL (${toActions}), then have your backend register the URL: <code>POST /register_push_notifications</code>.`,
      resume: html`press Resume (${toActions})`,
    });
  });

/** Makes the form that recovers what failed. */
const recovery =
  ({ health, session, formToken, here }: SiteState, path: string) =>
  (sinceMs: number): Piece => {
    if (session.access !== 'full') return '';
    const since = html`<input type="hidden" name="since" value="${new Date(sinceMs).toISOString()}">`;
    const words = `Recover ${count(health.failed, 'video')}`;
    return [path !== '/actions' && noResult, actionForm(`${here}/recover`, formToken, words, since)];
  };
