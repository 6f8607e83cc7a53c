/** `demo`: the whole flow against the running service, with its own receiver on a free port of this machine. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { span } from '../api/console/words.js';
import { presentTime } from '../api/endpoints/present.js';
import { readTargetPolicy } from '../outgoing/address.js';
import { sign } from '../outgoing/notification.js';
import { checkTarget } from '../outgoing/target.js';
import { withTimeout } from '../promises.js';
import { defaultScopes, listAccounts, platformScope } from '../redis/records/accounts.js';
import { accountCreate, accountRotateSecret, apiAddress } from './account.js';
import { clientCreate } from './client.js';
import { type Answer, answer, explainError, type Operator, Refused, whole } from './operation.js';

export const demoDoes = 'run the whole flow against the running service, with its own receiver';

const accountName = 'Demo by operator';
const demoScopes = [...defaultScopes, platformScope];
const answerWithinMs = 10_000;
const arriveWithinMs = 60_000;

interface Received extends Pick<IncomingMessage, 'headers'> {
  atMs: number;
  body: string;
}

/** @param showProgress prints a line of progress, for people only */
export async function demo(operator: Operator, showProgress: (line: string) => void): Promise<Answer> {
  const server = createServer();
  const arrived = new Promise<Received>((resolve) =>
    server.on('request', async (request, response) => {
      const body = await text(request);
      resolve({ atMs: Date.now(), headers: request.headers, body });
      response.writeHead(204).end();
    }),
  );
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/notifications`;
  try {
    await refuseUnlessPossible(operator, url);
    return await play(operator, { url, arrived }, showProgress);
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

async function play(
  operator: Operator,
  { url, arrived }: { url: string; arrived: Promise<Received> },
  showProgress: (line: string) => void,
): Promise<Answer> {
  let number = 0;
  const step = (words: string) => showProgress(`${++number}. ${words}`);
  const detail = (words: string) => showProgress(`   ${words}`);

  const { account_id, client_id, client_secret } = await demoAccount(operator);
  const client_token = `demo-${randomBytes(4).toString('hex')}`;
  await clientCreate.run(operator, { account: account_id, name: 'Demo site', token: client_token }, whole);
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
  const published = await publish('video-1');
  const { event_id, notification_id } = published;
  step(`The platform found segments for the asset video-1: POST /enrichments`);
  detail(`202 ${JSON.stringify(published)}`);
  const late = () => {
    throw new Refused(`No notification arrived within ${span(arriveWithinMs)}.`);
  };
  const { atMs, headers: all, body } = await withTimeout(arrived, arriveWithinMs, late);
  const milliseconds = atMs - sentAtMs;
  step(`The notification arrives, ${milliseconds} ms after the event was published:`);
  const headers = Object.fromEntries(Object.entries(all).filter(([header]) => header.startsWith('webhook-')));
  for (const [header, value] of Object.entries(headers)) detail(`${header}: ${value}`);
  detail(body);
  const expected = sign([signing_secret], `${notification_id}`, Number(headers['webhook-timestamp']), body);
  if (headers['webhook-signature'] !== expected) throw new Refused('The signature does not match.');
  step("The receiver computes the signature itself, with the client's signing secret: it matches.");

  return answer(
    {
      client_token,
      account_id,
      platform_id: 'video-1',
      event_id,
      notification_id,
      url,
      received: { at: presentTime(atMs), milliseconds, headers, body, signature: 'verified' },
    },
    [
      '',
      'Look at it again:',
      `  npm run -s operator -- notification show ${notification_id}`,
      `  npm run -s operator -- explain ${client_token} video-1`,
      `  in the Temporal UI: ClientToken = "${client_token}"`,
      'Remove the client, and disable the account, which the next demo would use again:',
      `  npm run -s operator -- client delete ${client_token}`,
      `  npm run -s operator -- account disable ${account_id}`,
    ].join('\n'),
  );
}

/** Returns the demo's own account: the first run creates it, and each later run gives it a new secret. */
async function demoAccount(operator: Operator) {
  const existing = (await listAccounts(await operator.db())).find(
    ({ name, disabled }) => name === accountName && !disabled,
  );
  const { value } = await (existing === undefined
    ? accountCreate.run(operator, { name: accountName, scope: demoScopes }, whole)
    : accountRotateSecret.run(operator, { account_id: existing.accountId, now: false }, whole));
  return value as { account_id: string; client_id: string; client_secret: string };
}

/** Calls the service. @throws Refused with its answer if that is not a 2xx, or if there is no answer */
async function callApi(
  operator: Operator,
  method: string,
  path: string,
  { token, body }: { token?: string; body?: string | URLSearchParams } = {},
): Promise<Record<string, string>> {
  const origin = apiAddress(operator);
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
  return JSON.parse(answer);
}
