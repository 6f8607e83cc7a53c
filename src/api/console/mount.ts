import type Router from '@koa/router';
import { ApiError } from '../apiError.js';
import { type ApiDeps, composeSteps } from '../step.js';
import { openEndpoint, openPage, signOutEndpoint } from './access/open.js';
import { assetEndpoint } from './assets.js';
import { consoleHeaders } from './headers.js';
import { answerErrorsAsPages } from './pageSteps.js';
import { actionsPage } from './pages/actions.js';
import {
  answerRecover,
  answerRedeliver,
  answerResume,
  answerRotate,
  answerSigningSecret,
  answerTest,
} from './pages/answers.js';
import { assetPage } from './pages/asset.js';
import { answerCheck } from './pages/checkAnswer.js';
import { historyEndpoint } from './pages/history.js';
import { notificationPage } from './pages/notification.js';
import { notificationsPage } from './pages/notifications.js';
import { answerReplay } from './pages/replayAnswer.js';
import { sitePage } from './pages/site.js';
import { sitesPage } from './pages/sites.js';
import { verifyPage } from './pages/verify.js';

const nowherePage = composeSteps(consoleHeaders, answerErrorsAsPages, () => {
  throw new ApiError('not_found', 'There is nothing at this address');
});

/** The console's pages, everything under /console. */
export function mountConsole(router: Router, deps: ApiDeps): void {
  router.get('/console/assets/:name', ...assetEndpoint);
  router.get('/console/open', ...openPage);
  router.post('/console/open', ...openEndpoint(deps));
  router.post('/console/sign_out', ...signOutEndpoint(deps));
  router.get('/console', ...sitesPage(deps));
  router.get('/console/sites/:site', ...sitePage(deps));
  router.get('/console/sites/:site/history', ...historyEndpoint(deps));
  router.get('/console/sites/:site/notifications', ...notificationsPage(deps));
  router.get('/console/sites/:site/notifications/:id', ...notificationPage(deps));
  router.get('/console/sites/:site/asset', ...assetPage(deps));
  router.get('/console/sites/:site/actions', ...actionsPage(deps));
  router.get('/console/sites/:site/verify', ...verifyPage(deps));
  router.post('/console/sites/:site/test', ...answerTest(deps));
  router.post('/console/sites/:site/check', ...answerCheck(deps));
  router.post('/console/sites/:site/resume', ...answerResume(deps));
  router.post('/console/sites/:site/recover', ...answerRecover(deps));
  router.post('/console/sites/:site/replay', ...answerReplay(deps));
  router.post('/console/sites/:site/signing_secret', ...answerSigningSecret(deps));
  router.post('/console/sites/:site/signing_secret/rotate', ...answerRotate(deps));
  router.post('/console/sites/:site/notifications/:id/redeliver', ...answerRedeliver(deps));
  router.get('/console/*nowhere', ...nowherePage);
}
