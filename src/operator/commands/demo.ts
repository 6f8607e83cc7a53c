import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { targetPolicyOf } from '../../outgoing/address.js';
import { sign } from '../../outgoing/notification.js';
import { checkTarget, TargetRefused } from '../../outgoing/target.js';
import { createAccount, listAccounts, rotateSecret } from '../../redis/records/accounts.js';
import { createClient } from '../../redis/records/clients.js';
import { type AddCommand, type Operator, Refused } from '../operator.js';
import { moment } from '../terminal/words.js';

export function addDemoCommand(add: AddCommand): void {
  add('demo', 'run the whole flow against the running service, with its own receiver', demo);
}

const arriveWithinMs = 30_000;
const answerWithinMs = 10_000;
const platformId = 'video-1';

/** Its own receiver is on a free port of this machine. */
async function demo(operator: Operator): Promise<void> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/notifications`;
    await checkFirst(operator, url);
    await playDemo(operator, server, url);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** @throws Refused if the demo could not complete; nothing is created then */
async function checkFirst(operator: Operator, url: string): Promise<void> {
  await callApi(operator, 'GET', '/healthz');
  try {
    await checkTarget(url, targetPolicyOf(operator.config()));
  } catch (err) {
    if (!(err instanceof TargetRefused)) throw err;
    throw new Refused(
      `The service refuses the URL of the demo's receiver, ${url}: ${err.message}.\n` +
        'Nothing was created. The demo needs ALLOW_HTTP_TARGETS=true and ALLOWED_TARGET_CIDRS=127.0.0.0/8, ' +
        'for the service and for this command; "npm start" sets both.',
    );
  }
}

async function playDemo(operator: Operator, server: Server, url: string): Promise<void> {
  let number = 0;
  const step = (words: string) => operator.tell(`${++number}. ${words}`);
  const detail = (words: string) => operator.tell(`   ${words}`);

  const publisher = await demoAccount(operator, 'Demo by operator', 'push_notifications');
  const platform = await demoAccount(operator, 'Demo platform by operator', 'enrichments');
  const client_token = `demo-${randomBytes(4).toString('hex')}`;
  const { accountId } = publisher;
  const wanted = { accountId, name: 'Demo site', clientToken: client_token };
  await operator.change((db) => createClient(db, wanted));
  await operator.record('client create', client_token, null, { account_id: accountId, name: wanted.name });
  step(
    `Created: accounts of a publisher and of the platform, and a client of the publisher, ${client_token}`,
  );

  const token = await mint(operator, publisher);
  step('The publisher asks for an access token: POST /oauth/access_token');
  detail('200, Bearer; the token is not shown');

  const secretPath = `/push_notifications/signing_secret?client_token=${client_token}`;
  const { signing_secret } = await callApi<{ signing_secret: string }>(operator, 'GET', secretPath, {
    token,
  });
  step('It reads the signing secret of its client: GET /push_notifications/signing_secret');

  const query = new URLSearchParams({ client_token, url });
  await callApi(operator, 'POST', `/register_push_notifications?${query}`, { token });
  step('It registers the URL of its receiver, once: POST /register_push_notifications');
  detail(`200 ${url}`);

  const platformToken = await mint(operator, platform);
  const event = { client_token, platform_id: platformId, segments: ['iab:17', 'mood:calm'] };
  const call = { token: platformToken, body: JSON.stringify(event), type: 'application/json' };
  const sentAtMs = Date.now();
  const [received, { event_id, notification_id }] = await Promise.all([
    receiveOne(server),
    callApi<{ event_id: string; notification_id: string }>(operator, 'POST', '/enrichments', call),
  ]);
  step(`The platform found segments for the asset ${platformId}: POST /enrichments`);
  detail(`202 ${JSON.stringify({ event_id, notification_id })}`);
  const milliseconds = received.atMs - sentAtMs;
  step(`The notification arrives, ${milliseconds} ms after the event was published:`);
  const all = Object.entries(received.headers);
  const headers = Object.fromEntries(all.filter(([header]) => header.startsWith('webhook-')));
  for (const [header, value] of Object.entries(headers)) detail(`${header}: ${value}`);
  const { body } = received;
  detail(body);
  if (!isSigned(received, signing_secret)) throw new Refused('The signature does not match.');
  step("The receiver computes the signature itself, with the client's signing secret: it matches.");

  operator.answer(
    {
      ...{ client_token, account_id: accountId, platform_id: platformId, event_id, notification_id, url },
      received: { at: moment(received.atMs), milliseconds, headers, body, signature: 'verified' },
    },
    () =>
      [
        '',
        'Look at it again:',
        `  npm run -s operator -- notification show ${notification_id}`,
        `  npm run -s operator -- explain ${client_token} ${platformId}`,
        `  in the Temporal UI: ClientToken = "${client_token}"`,
        'Remove the client:',
        `  npm run -s operator -- client delete ${client_token}`,
      ].join('\n'),
  );
}

interface Received {
  atMs: number;
  headers: IncomingHttpHeaders;
  body: string;
}

async function receiveOne(server: Server): Promise<Received> {
  const signal = AbortSignal.timeout(arriveWithinMs);
  const arrived = await once(server, 'request', { signal }).catch(() => {
    throw new Refused(`No notification arrived within ${arriveWithinMs / 1000} s.`);
  });
  const [request, response] = arrived as [IncomingMessage, ServerResponse];
  const body = await text(request);
  response.writeHead(204).end();
  return { atMs: Date.now(), headers: request.headers, body };
}

interface DemoAccount {
  accountId: string;
  credentials: { client_id: string; client_secret: string };
  scope: string;
}

/** Returns the demo's own account: the first run creates it, and each later run gives it a new secret. */
async function demoAccount(operator: Operator, name: string, scope: string): Promise<DemoAccount> {
  const db = await operator.db();
  const existing = (await listAccounts(db)).find((account) => account.name === name && !account.disabled);
  if (existing !== undefined) {
    const { accountId, clientId: client_id } = existing;
    const { client_secret } = await rotateSecret(db, accountId, { now: false });
    const after = { old_one_ends: 'in 24 h' };
    await operator.record('account rotate-secret', accountId, null, after);
    return { accountId, credentials: { client_id, client_secret }, scope };
  }
  const { account_id, client_id, client_secret, scopes } = await createAccount(db, { name, scopes: [scope] });
  const after = { name, client_id, scopes };
  await operator.record('account create', account_id, null, after);
  return { accountId: account_id, credentials: { client_id, client_secret }, scope };
}

async function mint(operator: Operator, { credentials, scope }: DemoAccount): Promise<string> {
  const body = new URLSearchParams({ grant_type: 'none', scope, ...credentials }).toString();
  const type = 'application/x-www-form-urlencoded';
  const answer = await callApi<{ access_token: string }>(operator, 'POST', '/oauth/access_token', {
    body,
    type,
  });
  return answer.access_token;
}

/** Calls the service. @throws Refused with its answer if that is not a 2xx, or if there is no answer */
async function callApi<Answer>(
  operator: Operator,
  method: string,
  path: string,
  { token, body, type }: { token?: string; body?: string; type?: string } = {},
): Promise<Answer> {
  const origin = operator.api();
  const headers = {
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(type !== undefined && { 'content-type': type }),
  };
  const signal = AbortSignal.timeout(answerWithinMs);
  const called = `${method} ${path.replace(/\?.*/, '')}`;
  const response = await fetch(origin + path, {
    ...{ method, headers, signal },
    ...(body !== undefined && { body }),
  }).catch(() => {
    throw new Refused(`The service does not answer at ${origin}: ${called}`);
  });
  const answer = await response.text();
  if (!response.ok) throw new Refused(`${called} answered ${response.status}: ${answer.slice(0, 500)}`);
  return JSON.parse(answer) as Answer;
}

/** Standard Webhooks: at least one of the signatures must match. */
function isSigned({ headers, body }: Received, secret: string): boolean {
  const timestamp = Number(headers['webhook-timestamp']);
  const expected = Buffer.from(sign([secret], String(headers['webhook-id']), timestamp, body));
  return String(headers['webhook-signature'])
    .split(' ')
    .map((given) => Buffer.from(given))
    .some((given) => given.length === expected.length && timingSafeEqual(given, expected));
}
