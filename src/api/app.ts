import Router from '@koa/router';
import Koa from 'koa';
import { answerErrors } from './answerErrors.js';
import { checkHead } from './checkHead.js';
import { mountConsole } from './console/mount.js';
import type { ApiDeps } from './deps.js';
import { accessTokenEndpoint } from './endpoints/accessToken.js';
import { assetEndpoint } from './endpoints/asset.js';
import { checkReceiverEndpoint } from './endpoints/checkReceiver.js';
import { clientsEndpoint } from './endpoints/clients.js';
import { enrichmentsEndpoint } from './endpoints/enrichments.js';
import { eventEndpoint } from './endpoints/event.js';
import { updatesEndpoint } from './endpoints/feed/updates.js';
import { requestHeadersEndpoint, setRequestHeadersEndpoint } from './endpoints/headers/requestHeaders.js';
import { healthzEndpoint, readyzEndpoint } from './endpoints/health.js';
import {
  noticesSecretEndpoint,
  noticesUrlEndpoint,
  removeNoticesUrlEndpoint,
  rotateNoticesSecretEndpoint,
  setNoticesUrlEndpoint,
} from './endpoints/notices.js';
import { notificationEndpoint } from './endpoints/notification.js';
import { notificationsEndpoint } from './endpoints/notifications.js';
import { pushNotificationsEndpoint } from './endpoints/pushNotifications.js';
import { recoverEndpoint } from './endpoints/recover.js';
import { redeliverEndpoint } from './endpoints/redeliver.js';
import { registerPushNotificationsEndpoint } from './endpoints/registerPushNotifications.js';
import { replayEndpoint } from './endpoints/replay.js';
import { resumeEndpointEndpoint } from './endpoints/resume.js';
import { rotateSigningSecretEndpoint, signingSecretEndpoint } from './endpoints/signingSecret.js';
import { testNotificationEndpoint } from './endpoints/testNotification.js';
import { literalRoutes } from './literalRoutes.js';
import { observe } from './observe.js';
import { docsEndpoint, docsFileEndpoints } from './reference/docs.js';
import { openapiEndpoint } from './reference/openapi.js';
import { nameRequest } from './requestId.js';

export type { ApiDeps } from './deps.js';

/** Builds the HTTP edge: every path with its endpoint, and the middlewares around them. */
export function createApi(deps: ApiDeps): Koa {
  // A path in another case is another path, so that rules of a proxy by path hold here too.
  const router = new Router({ sensitive: true });
  router.post('/oauth/access_token', ...accessTokenEndpoint(deps));
  router.post('/register_push_notifications', ...registerPushNotificationsEndpoint(deps));
  router.post('/enrichments', ...enrichmentsEndpoint(deps));
  router.get('/clients', ...clientsEndpoint(deps));
  router.get('/push_notifications', ...pushNotificationsEndpoint(deps));
  router.get('/push_notifications/signing_secret', ...signingSecretEndpoint(deps));
  router.post('/push_notifications/signing_secret', ...rotateSigningSecretEndpoint(deps));
  router.get('/push_notifications/headers', ...requestHeadersEndpoint(deps));
  router.put('/push_notifications/headers', ...setRequestHeadersEndpoint(deps));
  router.post('/push_notifications/test', ...testNotificationEndpoint(deps));
  router.post('/push_notifications/check', ...checkReceiverEndpoint(deps));
  router.post('/push_notifications/resume', ...resumeEndpointEndpoint(deps));
  router.get('/notifications', ...notificationsEndpoint(deps));
  router.post('/notifications/recover', ...recoverEndpoint(deps));
  router.post('/notifications/replay', ...replayEndpoint(deps));
  router.get('/notifications/:id', ...notificationEndpoint(deps));
  router.post('/notifications/:id/redeliver', ...redeliverEndpoint(deps));
  router.get('/updates', ...updatesEndpoint(deps));
  router.put('/notices', ...setNoticesUrlEndpoint(deps));
  router.get('/notices', ...noticesUrlEndpoint(deps));
  router.delete('/notices', ...removeNoticesUrlEndpoint(deps));
  router.get('/notices/signing_secret', ...noticesSecretEndpoint(deps));
  router.post('/notices/signing_secret', ...rotateNoticesSecretEndpoint(deps));
  router.get('/assets/:platformId', ...assetEndpoint(deps));
  router.get('/events/:eventId', ...eventEndpoint(deps));
  router.get('/healthz', ...healthzEndpoint);
  router.get('/readyz', ...readyzEndpoint(deps));
  router.get('/openapi.json', ...openapiEndpoint);
  router.get('/docs', ...docsEndpoint);
  for (const [path, file] of docsFileEndpoints) router.get(path, ...file);
  mountConsole(router, deps);

  const app = new Koa();
  app.use(nameRequest);
  app.use(observe(deps.log, deps.metrics));
  app.use(answerErrors(deps.log));
  app.use(checkHead);
  app.use(literalRoutes(router));
  app.use(router.routes());
  app.use(router.allowedMethods());
  // Errors after the answer was handed over, such as a caller that hung up.
  app.on('error', (err: NodeJS.ErrnoException) => deps.log.debug({ reason: err.code }, 'connection error'));
  return app;
}
