/** Every call of the API in the order of its description, without `/openapi.json`, which describes them. */
import type { Endpoint } from './endpoint.js';
import * as clientSettings from './endpoints/clientSettings.js';
import * as clients from './endpoints/clients.js';
import * as consoleSessions from './endpoints/consoleSessions.js';
import * as enrichments from './endpoints/enrichments.js';
import * as notices from './endpoints/notices.js';
import * as notifications from './endpoints/notifications.js';
import * as registration from './endpoints/registerPushNotifications.js';
import * as sendAgain from './endpoints/sendAgain.js';
import * as service from './endpoints/service.js';
import * as signingSecret from './endpoints/signingSecret.js';
import * as testNotification from './endpoints/testNotification.js';
import * as tokens from './endpoints/tokens.js';
import * as updates from './endpoints/updates.js';
import { docsEndpoint } from './reference/docs.js';

export const endpoints: readonly Endpoint[] = [
  tokens.accessTokenEndpoint,
  tokens.revokeTokenEndpoint,
  registration.registerPushNotificationsEndpoint,
  clients.clientsEndpoint,
  consoleSessions.createLinkEndpoint,
  clients.pushNotificationsEndpoint,
  signingSecret.signingSecretEndpoint,
  signingSecret.rotateSigningSecretEndpoint,
  testNotification.testNotificationEndpoint,
  testNotification.checkReceiverEndpoint,
  sendAgain.resumeEndpointEndpoint,
  clientSettings.requestHeadersEndpoint,
  clientSettings.setRequestHeadersEndpoint,
  clientSettings.setQuietPeriodEndpoint,
  updates.updatesEndpoint,
  notifications.notificationsEndpoint,
  notifications.notificationEndpoint,
  sendAgain.redeliverEndpoint,
  sendAgain.recoverEndpoint,
  sendAgain.replayEndpoint,
  notifications.eventEndpoint,
  notifications.assetEndpoint,
  signingSecret.noticesSecretEndpoint,
  signingSecret.rotateNoticesSecretEndpoint,
  notices.setNoticesUrlEndpoint,
  notices.noticesUrlEndpoint,
  notices.removeNoticesUrlEndpoint,
  enrichments.enrichmentsEndpoint,
  notifications.forgetAssetEndpoint,
  service.sourceAddressesEndpoint,
  service.healthzEndpoint,
  service.readyzEndpoint,
  docsEndpoint,
];
