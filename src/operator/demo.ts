/** `demo`: the whole flow against the running service, with its own receiver on a free port of this machine. */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { targetPolicyOf } from '../outgoing/address.js';
import { sign } from '../outgoing/notification.js';
import { checkTarget, TargetRefused } from '../outgoing/target.js';
import { createAccount, listAccounts, rotateSecret } from '../redis/records/accounts.js';
import { createClient } from '../redis/records/clients.js';
import { type AddCommand, type Operator, Refused } from './session.js';
import { fromNow, moment, span } from './terminal.js';

export function addDemoCommand(add: AddCommand): void {
  const does = 'run the whole flow against the running service, with its own receiver';
  add('demo', does, demo).option('--outage', 'then fail as a receiver, and show a retry and a recovery');
}

const answerWithinMs = 10_000;
const arriveWithinMs = 60_000;

async function demo(operator: Operator, { outage = false }: { outage?: boolean }): Promise<void> {
  const receiver = await openReceiver();
  try {
    await checkFirst(operator, receiver.url);
    await playDemo(operator, receiver, outage);
  } finally {
    receiver.server.closeAllConnections();
    receiver.server.close();
  }
}

interface Received {
  atMs: number;
  headers: IncomingHttpHeaders;
  body: string;
  /** The receiver's answer. */
  status: number;
}

type Receiver = Awaited<ReturnType<typeof openReceiver>>;

async function openReceiver() {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const { status } = receiver;
    received.push({ atMs: Date.now(), headers: request.headers, body: await text(request), status });
    response.writeHead(status).end();
  });
  const receiver = { server, received, url: '', status: 204 };
  await once(server.listen(0, '127.0.0.1'), 'listening');
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/notifications`;
  return receiver;
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

async function playDemo(operator: Operator, receiver: Receiver, outage: boolean): Promise<void> {
  let number = 0;
  const step = (words: string) => operator.tell(`${++number}. ${words}`);
  const detail = (words: string) => operator.tell(`   ${words}`);
  const { url, received } = receiver;
  const publisher = await demoAccount(operator, 'Demo by operator', 'push_notifications');
  const platform = await demoAccount(operator, 'Demo platform by operator', 'enrichments');
  const { accountId } = publisher;
  const client_token = `demo-${randomBytes(4).toString('hex')}`;
  const name = 'Demo site';
  await operator.change((db) => createClient(db, { accountId, name, clientToken: client_token }));
  await operator.record('client create', client_token, null, { account_id: accountId, name });
  step(`Created: accounts of a publisher and of the platform, and the publisher's client ${client_token}`);

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
  const publish = (asset: string) => {
    const event = { client_token, platform_id: asset, segments: ['iab:17', 'mood:calm'] };
    const call = { token: platformToken, body: JSON.stringify(event) };
    return callApi<{ event_id: string; notification_id: string }>(operator, 'POST', '/enrichments', call);
  };
  const sentAtMs = Date.now();
  const answer = await publish('video-1');
  const { event_id, notification_id } = answer;
  step(`The platform found segments for the asset video-1: POST /enrichments`);
  detail(`202 ${JSON.stringify(answer)}`);
  await waitFor(() => received.length > 0);
  const [{ atMs, headers: all, body }] = received as [Received];
  const milliseconds = atMs - sentAtMs;
  step(`The notification arrives, ${milliseconds} ms after the event was published:`);
  const headers = Object.fromEntries(Object.entries(all).filter(([header]) => header.startsWith('webhook-')));
  for (const [header, value] of Object.entries(headers)) detail(`${header}: ${value}`);
  detail(body);
  if (!isSigned(all, body, signing_secret)) throw new Refused('The signature does not match.');
  step("The receiver computes the signature itself, with the client's signing secret: it matches.");

  if (outage) {
    const path = `/push_notifications?client_token=${client_token}`;
    const endpoint = () => callApi<EndpointAnswer>(operator, 'GET', path, { token });
    await playOutage({ step, detail, receiver, publish, endpoint });
  }
  operator.answer(
    {
      ...{ client_token, account_id: accountId, platform_id: 'video-1', event_id, notification_id, url },
      received: { at: moment(atMs), milliseconds, headers, body, signature: 'verified' },
    },
    () =>
      [
        '',
        'Look at it again:',
        `  npm run -s operator -- notification show ${notification_id}`,
        `  npm run -s operator -- explain ${client_token} video-1`,
        `  in the Temporal UI: ClientToken = "${client_token}"`,
        ...(outage ? [] : ['See a receiver fail and recover:', '  npm run -s operator -- demo --outage']),
        'Remove the client (the next demo uses the two accounts again; "account disable ID" locks one):',
        `  npm run -s operator -- client delete ${client_token}`,
      ].join('\n'),
  );
}

/** What `GET /push_notifications` says of the receiver. */
type EndpointAnswer = { state: string; owed: number; next_attempt_at: string | null };

async function playOutage(on: {
  step: (words: string) => void;
  detail: (words: string) => void;
  receiver: Receiver;
  publish: (asset: string) => Promise<unknown>;
  endpoint: () => Promise<EndpointAnswer>;
}): Promise<void> {
  const { step, detail, receiver, publish, endpoint } = on;
  const progress = async () => {
    const { state, owed, next_attempt_at: next } = await endpoint();
    detail(`... ${state}, owed ${owed}, next attempt ${next ? fromNow(Date.parse(next)) : 'under way'}`);
  };
  const answered = (status: number) => receiver.received.filter((request) => request.status === status);
  receiver.status = 503;
  await publish('video-2');
  await waitFor(() => answered(503).length > 0);
  step('The receiver answers 503 to the next notification. The service tries again by itself:');
  receiver.status = 204;
  await waitFor(() => answered(204).length === 2, progress);
  const [failed, repeated] = receiver.received.slice(1) as [Received, Received];
  detail(`204 to the second attempt, ${span(repeated.atMs - failed.atMs)} later, under the same webhook-id`);

  const assets = ['video-3', 'video-4', 'video-5', 'video-6', 'video-7', 'video-8'];
  receiver.status = 503;
  await Promise.all(assets.map(publish));
  await waitFor(async () => (await endpoint()).state === 'failing');
  step(`The receiver fails for ${assets.length} more: after 5 failures in a row its endpoint is "failing".`);
  detail('It gets one probe at a time, and everything stays owed. Now the receiver works again.');
  receiver.status = 204;
  await waitFor(() => answered(204).length === 2 + assets.length, progress);
  const [probe, ...others] = answered(204).slice(2) as [Received, Received];
  const lastMs = others.reduce((last, { atMs }) => Math.max(last, atMs), probe.atMs);
  step(`A probe is answered 204, and the other ${others.length} follow within ${span(lastMs - probe.atMs)}.`);
}

/** Waits for a fact, and every 2 s tells how it stands. @throws Refused after a minute */
async function waitFor(isSo: () => boolean | Promise<boolean>, progress = async () => {}): Promise<void> {
  const begunMs = Date.now();
  for (let toldMs = begunMs; !(await isSo()); await sleep(50)) {
    if (Date.now() - begunMs > arriveWithinMs)
      throw new Refused(`No notification arrived within ${span(arriveWithinMs)}.`);
    if (Date.now() - toldMs < 2000) continue;
    await progress();
    toldMs = Date.now();
  }
}

/** Returns the demo's own account: the first run creates it, and each later run gives it a new secret. */
async function demoAccount(operator: Operator, name: string, scope: string) {
  const db = await operator.db();
  const existing = (await listAccounts(db)).find((account) => account.name === name && !account.disabled);
  if (existing !== undefined) {
    const { accountId, clientId: client_id } = existing;
    const { client_secret } = await rotateSecret(db, accountId, { now: false });
    await operator.record('account rotate-secret', accountId, null, { old_one_ends: 'in 24 h' });
    return { accountId, scope, credentials: { client_id, client_secret } };
  }
  const { account_id, client_id, client_secret, scopes } = await createAccount(db, { name, scopes: [scope] });
  await operator.record('account create', account_id, null, { name, client_id, scopes });
  return { accountId: account_id, scope, credentials: { client_id, client_secret } };
}

type DemoAccount = Awaited<ReturnType<typeof demoAccount>>;

async function mint(operator: Operator, { credentials, scope }: DemoAccount): Promise<string> {
  const body = new URLSearchParams({ grant_type: 'none', scope, ...credentials });
  const call = callApi<{ access_token: string }>(operator, 'POST', '/oauth/access_token', { body });
  return (await call).access_token;
}

/** Calls the service. @throws Refused with its answer if that is not a 2xx, or if there is no answer */
async function callApi<Answer>(
  operator: Operator,
  method: string,
  path: string,
  { token, body }: { token?: string; body?: string | URLSearchParams } = {},
): Promise<Answer> {
  const origin = operator.api();
  const headers = {
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(typeof body === 'string' && { 'content-type': 'application/json' }),
  };
  const signal = AbortSignal.timeout(answerWithinMs);
  const called = `${method} ${path.replace(/\?.*/, '')}`;
  const response = await fetch(origin + path, { method, headers, signal, body }).catch(() => {
    throw new Refused(`The service does not answer at ${origin}: ${called}`);
  });
  const answer = await response.text();
  if (!response.ok) throw new Refused(`${called} answered ${response.status}: ${answer.slice(0, 500)}`);
  return JSON.parse(answer) as Answer;
}

/** Standard Webhooks: at least one of the signatures must match. */
function isSigned(headers: IncomingHttpHeaders, body: string, secret: string): boolean {
  const timestamp = Number(headers['webhook-timestamp']);
  const expected = Buffer.from(sign([secret], String(headers['webhook-id']), timestamp, body));
  return String(headers['webhook-signature'])
    .split(' ')
    .map((given) => Buffer.from(given))
    .some((given) => given.length === expected.length && timingSafeEqual(given, expected));
}
