/** Every call of the API without `/openapi.json`, which describes them: what the files of calls export, by path. */
import type { Call } from './call.js';
import * as clientSettings from './calls/clientSettings.js';
import * as clients from './calls/clients.js';
import * as enrichments from './calls/enrichments.js';
import * as notices from './calls/notices.js';
import * as notifications from './calls/notifications.js';
import * as registrations from './calls/registrations.js';
import * as sendAgain from './calls/sendAgain.js';
import * as service from './calls/service.js';
import * as testNotification from './calls/testNotification.js';
import * as tokens from './calls/tokens.js';
import * as updates from './calls/updates.js';
import * as docs from './reference/docs.js';

/** The groups of calls, in the order of the description, and the files that export them. */
const groups: Record<string, { says: string; files: Record<string, unknown>[] }> = {
  Tokens: { says: 'Exchange the credentials of an account for an access token.', files: [tokens] },
  Registration: { says: 'The one URL of a client.', files: [registrations] },
  Endpoint: {
    says: 'Clients, the state of their endpoints, signing secrets, tests.',
    files: [clients, testNotification, clientSettings],
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

const isCall = (entry: [name: string, value: unknown]): entry is [string, Call] =>
  typeof entry[1] === 'object' && entry[1] !== null && 'middleware' in entry[1];

/** The name of an export, before `Call`, is the operation's id. */
export const calls = Object.entries(groups)
  .flatMap(([tag, { files }]) =>
    files
      .flatMap((file) => Object.entries(file).filter(isCall))
      .map(([name, of]) => ({ ...of, tag, operationId: name.replace(/Call$/, '') })),
  )
  .sort((one, other) => one.path.localeCompare(other.path));
