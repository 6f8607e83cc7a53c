/** Every operation of operators, in the order of the help. */
import * as access from './access.js';
import * as account from './account.js';
import * as audit from './audit.js';
import * as client from './client.js';
import * as doctor from './doctor.js';
import * as explain from './explain.js';
import * as notification from './notification.js';
import type { Operation } from './operation.js';
import * as registration from './registration.js';
import * as status from './status.js';

export const groups: Record<string, string> = {
  account: 'manage accounts of media companies and of the platform',
  client: 'manage clients: sites, apps and channels of an account',
  asset: 'forget an asset',
  registration: 'show and change the URL and state of clients',
  notification: 'list, send again, recover or cancel notifications',
  token: 'make, list and end tokens with which programs sign in',
  secrets: 'encrypt or rotate signing secrets',
  store: 'say what happened to the store',
};

const files = [account, client, registration, notification, explain, status, doctor, audit, access];

const isOperation = (one: unknown): one is Operation =>
  typeof one === 'object' && one !== null && 'command' in one && 'run' in one;

/** What the files of operations export, by the names of the exports. */
export const operations: readonly Operation[] = files.flatMap((file) =>
  Object.values<unknown>(file).filter(isOperation),
);
