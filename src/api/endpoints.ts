/** Every call of the API in the order of its description, without `/openapi.json`, which describes them. */
import type { Endpoint } from './endpoint.js';
import { clientsEndpoint, pushNotificationsEndpoint } from './endpoints/clients.js';
import { createLinkEndpoint } from './endpoints/consoleSessions.js';
import { enrichmentsEndpoint } from './endpoints/enrichments.js';
import { healthzEndpoint, readyzEndpoint } from './endpoints/health.js';
import {
  noticesSecretEndpoint,
  noticesUrlEndpoint,
  removeNoticesUrlEndpoint,
  rotateNoticesSecretEndpoint,
  setNoticesUrlEndpoint,
} from './endpoints/notices.js';
import {
  assetEndpoint,
  eventEndpoint,
  notificationEndpoint,
  notificationsEndpoint,
} from './endpoints/notifications.js';
import { registerPushNotificationsEndpoint } from './endpoints/registerPushNotifications.js';
import { requestHeadersEndpoint, setRequestHeadersEndpoint } from './endpoints/requestHeaders.js';
import {
  recoverEndpoint,
  redeliverEndpoint,
  replayEndpoint,
  resumeEndpointEndpoint,
} from './endpoints/sendAgain.js';
import { rotateSigningSecretEndpoint, signingSecretEndpoint } from './endpoints/signingSecret.js';
import { checkReceiverEndpoint, testNotificationEndpoint } from './endpoints/testNotification.js';
import { accessTokenEndpoint, revokeTokenEndpoint } from './endpoints/tokens.js';
import { updatesEndpoint } from './endpoints/updates.js';
import { docsEndpoint } from './reference/docs.js';

export const endpoints: readonly Endpoint[] = [
  accessTokenEndpoint,
  revokeTokenEndpoint,
  registerPushNotificationsEndpoint,
  clientsEndpoint,
  createLinkEndpoint,
  pushNotificationsEndpoint,
  signingSecretEndpoint,
  rotateSigningSecretEndpoint,
  testNotificationEndpoint,
  checkReceiverEndpoint,
  resumeEndpointEndpoint,
  requestHeadersEndpoint,
  setRequestHeadersEndpoint,
  updatesEndpoint,
  notificationsEndpoint,
  notificationEndpoint,
  redeliverEndpoint,
  recoverEndpoint,
  replayEndpoint,
  eventEndpoint,
  assetEndpoint,
  noticesSecretEndpoint,
  rotateNoticesSecretEndpoint,
  setNoticesUrlEndpoint,
  noticesUrlEndpoint,
  removeNoticesUrlEndpoint,
  enrichmentsEndpoint,
  healthzEndpoint,
  readyzEndpoint,
  docsEndpoint,
];
