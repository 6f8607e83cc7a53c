import type Router from '@koa/router';
import { ApiError } from '../apiError.js';
import type { ApiDeps } from '../step.js';
import { signOutEndpoint } from './access.js';
import { noticesPage, sitesPage } from './account.js';
import { actionsPage, verifyPage } from './actions.js';
import { answerNoticesTest, siteForms } from './answers.js';
import { openEndpoint, openPage } from './link.js';
import { assetPage, notificationPage, notificationsPage } from './notifications.js';
import { assetEndpoint, composePage } from './page.js';
import { overviewPage } from './site.js';

/** The console's pages, everything under /console. */
export function mountConsole(router: Router, deps: ApiDeps): void {
  router.get('/console/assets/:name', ...assetEndpoint);
  router.get('/console/open', ...openPage);
  router.post('/console/open', ...openEndpoint(deps));
  router.post('/console/sign_out', ...signOutEndpoint(deps));
  router.get('/console', ...sitesPage(deps));
  router.get('/console/notices', ...noticesPage(deps));
  router.post('/console/notices/test', ...answerNoticesTest(deps));
  router.get('/console/sites/:site', ...overviewPage(deps));
  router.get('/console/sites/:site/notifications', ...notificationsPage(deps));
  router.get('/console/sites/:site/notifications/:id', ...notificationPage(deps));
  router.get('/console/sites/:site/asset', ...assetPage(deps));
  router.get('/console/sites/:site/actions', ...actionsPage(deps));
  router.get('/console/sites/:site/verify', ...verifyPage(deps));
  for (const [path, steps] of Object.entries(siteForms(deps))) {
    router.post(`/console/sites/:site/${path}`, ...steps);
  }
  const nowherePage = composePage(() => {
    throw new ApiError('not_found', 'There is nothing at this address');
  });
  router.get('/console/*nowhere', ...nowherePage);
}
