/** Every call of the API without `/openapi.json`, which describes them: what the files of endpoints export, by path. */
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
import * as docs from './reference/docs.js';

/** The groups of calls, in the order of the description, and the files that export them. */
const groups: Record<string, { says: string; files: Record<string, unknown>[] }> = {
  Tokens: { says: 'Exchange the credentials of an account for an access token.', files: [tokens] },
  Registration: { says: 'The one URL of a client.', files: [registration] },
  Endpoint: {
    says: 'Clients, the state of their endpoints, signing secrets, tests.',
    files: [clients, consoleSessions, signingSecret, testNotification, clientSettings],
  },
  Notifications: {
    says: 'The notifications of a client: state, attempts, redelivery.',
    files: [notifications, sendAgain, updates],
  },
  Notices: {
    says: 'Messages to an account about its endpoints that fail or recover, and its secrets that are rotated.',
    files: [notices],
  },
  Publishing: {
    says: 'For the platform: publish the segments that analysis found.',
    files: [enrichments],
  },
  Webhooks: { says: 'What your receiver gets.', files: [] },
  Service: { says: 'Health checks and this description.', files: [service, docs] },
};

export const tags = Object.entries(groups).map(([name, { says }]) => ({ name, description: says }));

const isEndpoint = (entry: [name: string, value: unknown]): entry is [string, Endpoint] =>
  typeof entry[1] === 'object' && entry[1] !== null && 'middleware' in entry[1];

/** The name of an export, before `Endpoint`, is the operation's id. */
export const endpoints = Object.entries(groups)
  .flatMap(([tag, { files }]) =>
    files
      .flatMap((file) => Object.entries(file).filter(isEndpoint))
      .map(([name, of]) => ({ ...of, tag, operationId: name.replace(/Endpoint$/, '') })),
  )
  .sort((one, other) => one.path.localeCompare(other.path));
