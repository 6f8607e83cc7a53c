import type Router from '@koa/router';
import { ApiError } from '../apiError.js';
import type { ApiDeps } from '../deps.js';
import { endpoint } from '../endpoint.js';
import { answerErrorsAsPages } from './answerErrors.js';
import { assetEndpoint } from './assets.js';
import { createLinkEndpoint } from './createLink.js';
import { consoleHeaders } from './headers.js';
import { historyEndpoint } from './history.js';
import { openEndpoint, openPage, signOutEndpoint } from './open.js';
import { sitePage } from './site.js';
import { sitesPage } from './sites.js';

const nowherePage = endpoint(consoleHeaders, answerErrorsAsPages, () => {
  throw new ApiError('not_found', 'There is nothing at this address');
});

/** The console's addresses: POST /console_sessions for programs, everything under /console for browsers. */
export function mountConsole(router: Router, deps: ApiDeps): void {
  router.post('/console_sessions', ...createLinkEndpoint(deps));
  router.get('/console/assets/:name', ...assetEndpoint);
  router.get('/console/open', ...openPage);
  router.post('/console/open', ...openEndpoint(deps));
  router.post('/console/sign_out', ...signOutEndpoint(deps));
  router.get('/console', ...sitesPage(deps));
  router.get('/console/sites/:site', ...sitePage(deps));
  router.get('/console/sites/:site/history', ...historyEndpoint(deps));
  router.get('/console/*nowhere', ...nowherePage);
}
