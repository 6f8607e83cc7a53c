/** `demo`: the whole flow against the running service, with its own receiver on a free port of this machine. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { readTargetPolicy } from '../outgoing/address.js';
import { sign } from '../outgoing/notification.js';
import { checkTarget } from '../outgoing/target.js';
import {
  createAccount,
  defaultScopes,
  listAccounts,
  platformScope,
  rotateSecret,
} from '../redis/records/accounts.js';
import { createClient } from '../redis/records/clients.js';
import { type AddCommand, explainError, type Operator, Refused } from './session.js';
import { fromNow, moment, span } from './terminal.js';

export function addDemoCommand(add: AddCommand): void {
  const does = 'run the whole flow against the running service, with its own receiver';
  add('demo', does, demo).option('--outage', 'then fail as a receiver, and show a retry and a recovery');
}

const demoScopes = [...defaultScopes, platformScope];
const answerWithinMs = 10_000;
const arriveWithinMs = 60_000;

interface Received {
  atMs: number;
  headers: IncomingHttpHeaders;
  body: string;
  /** The receiver's answer. */
  status: number;
}

interface Receiver {
  url: string;
  /** The status of the next answers. */
  status: number;
  received: Received[];
}

async function demo(operator: Operator, { outage = false }: { outage?: boolean }) {
  const receiver: Receiver = { url: '', status: 204, received: [] };
  const server = createServer(async (request, response) => {
    const { status } = receiver;
    const body = await text(request);
    receiver.received.push({ atMs: Date.now(), headers: request.headers, body, status });
    response.writeHead(status).end();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/notifications`;
  try {
    await refuseUnlessPossible(operator, receiver.url);
    await play(operator, receiver, outage);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** @throws Refused if the demo could not complete; nothing is created then */
async function refuseUnlessPossible(operator: Operator, url: string) {
  await callApi(operator, 'GET', '/healthz');
  await checkTarget(url, readTargetPolicy(operator.config())).catch((err: unknown) => {
    throw new Refused(
      `The service refuses the URL of the demo's receiver, ${url}: ${explainError(err)}.\n` +
        'Nothing was created. The demo needs ALLOW_HTTP_TARGETS=true and ALLOWED_TARGET_CIDRS=127.0.0.0/8, ' +
        'for the service and for this command; "npm start" sets both.',
    );
  });
}

async function play(operator: Operator, receiver: Receiver, outage: boolean) {
  const { url, received } = receiver;
  let number = 0;
  const step = (words: string) => operator.showProgress(`${++number}. ${words}`);
  const detail = (words: string) => operator.showProgress(`   ${words}`);

  const { account_id, client_id, client_secret } = await demoAccount(operator);
  const client_token = `demo-${randomBytes(4).toString('hex')}`;
  const name = 'Demo site';
  await operator.change((db) => createClient(db, { accountId: account_id, name, clientToken: client_token }));
  await operator.record('client create', client_token, null, { account_id, name });
  step(`Created: an account that is publisher and platform in one, and its client ${client_token}`);

  const scope = demoScopes.join(' ');
  const form = new URLSearchParams({ grant_type: 'none', scope, client_id, client_secret });
  const { access_token: token = '' } = await callApi(operator, 'POST', '/oauth/access_token', { body: form });
  step('The account asks for an access token: POST /oauth/access_token');
  detail('200, Bearer; the token is not shown');

  const secretPath = `/push_notifications/signing_secret?client_token=${client_token}`;
  const { signing_secret = '' } = await callApi(operator, 'GET', secretPath, { token });
  step('It reads the signing secret of its client: GET /push_notifications/signing_secret');

  const query = new URLSearchParams({ client_token, url });
  await callApi(operator, 'POST', `/register_push_notifications?${query}`, { token });
  step('It registers the URL of its receiver, once: POST /register_push_notifications');
  detail(`200 ${url}`);

  const publish = (platform_id: string) => {
    const body = JSON.stringify({ client_token, platform_id, segments: ['iab:17', 'mood:calm'] });
    return callApi(operator, 'POST', '/enrichments', { token, body });
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
  const expected = sign([signing_secret], `${notification_id}`, Number(headers['webhook-timestamp']), body);
  if (headers['webhook-signature'] !== expected) throw new Refused('The signature does not match.');
  step("The receiver computes the signature itself, with the client's signing secret: it matches.");

  if (outage) {
    const path = `/push_notifications?client_token=${client_token}`;
    const endpoint = () => callApi<Endpoint>(operator, 'GET', path, { token });
    await playOutage({ receiver, step, detail, publish, endpoint });
  }
  operator.answer(
    {
      client_token,
      account_id,
      platform_id: 'video-1',
      event_id,
      notification_id,
      url,
      received: { at: moment(atMs), milliseconds, headers, body, signature: 'verified' },
    },
    [
      '',
      'Look at it again:',
      `  npm run -s operator -- notification show ${notification_id}`,
      `  npm run -s operator -- explain ${client_token} video-1`,
      `  in the Temporal UI: ClientToken = "${client_token}"`,
      ...(outage ? [] : ['See a receiver fail and recover:', '  npm run -s operator -- demo --outage']),
      'Remove the client, and lock the account, which the next demo would use again:',
      `  npm run -s operator -- client delete ${client_token}`,
      `  npm run -s operator -- account disable ${account_id}`,
    ].join('\n'),
  );
}

/** The part of the answer of `GET /push_notifications` that the demo shows. */
type Endpoint = { state: string; owed: number; next_attempt_at: string | null };

interface Stage {
  receiver: Receiver;
  step(words: string): void;
  detail(words: string): void;
  publish(asset: string): Promise<unknown>;
  endpoint(): Promise<Endpoint>;
}

async function playOutage({ receiver, step, detail, publish, endpoint }: Stage) {
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
  const times = answered(204).map(({ atMs }) => atMs);
  const spreadMs = Math.max(...times) - Number(times[2]);
  step(`A probe is answered 204, and the other ${assets.length - 1} follow within ${span(spreadMs)}.`);
}

/** Waits until a fact holds, and runs `progress` every 2 s. @throws Refused after a minute */
async function waitFor(isSo: () => boolean | Promise<boolean>, progress = async () => {}) {
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
async function demoAccount(operator: Operator) {
  const db = await operator.db();
  const name = 'Demo by operator';
  const existing = (await listAccounts(db)).find((account) => account.name === name && !account.disabled);
  if (existing !== undefined) {
    const { accountId: account_id, clientId: client_id } = existing;
    const { client_secret } = await rotateSecret(db, account_id);
    await operator.record('account rotate-secret', account_id, null, { old_one_ends: 'in 24 h' });
    return { account_id, client_id, client_secret };
  }
  const { account_id, client_secret, ...about } = await createAccount(db, { name, scopes: demoScopes });
  await operator.record('account create', account_id, null, about);
  return { account_id, client_id: about.client_id, client_secret };
}

/** Calls the service. @throws Refused with its answer if that is not a 2xx, or if there is no answer */
async function callApi<Answer = Record<string, string>>(
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
