/** `npm run demo`: the whole flow against the service that `npm start` runs, with a client and a receiver of its own. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { messageOf } from '../src/log.js';
import { dataDir, readRunState } from '../src/operator/npmStart.js';
import { sign } from '../src/outgoing/notification.js';
import { accountIdOf } from '../src/redis/records/accounts.js';
import { type Credentials, demoAccount, runOperator } from './demoAccount.js';
import type { RunState } from './runState.js';

const answerWithinMs = 10_000;
const arriveWithinMs = 60_000;
const receiver = createServer();
let number = 0;
const step = (words: string) => console.log(`${++number}. ${words}`);
const detail = (words: string) => console.log(`   ${words}`);

try {
  const { apiUrl, environment } = readRunState<RunState>() ?? {};
  if (!apiUrl || !environment) throw new Error('The demo needs a running service: npm start');
  await play(apiUrl, environment);
} catch (err) {
  console.error(messageOf(err));
  process.exitCode = 1;
} finally {
  receiver.closeAllConnections();
  receiver.close();
}

async function play(apiUrl: string, environment: Record<string, string>): Promise<void> {
  const { publisher, platform } = await demoAccount(dataDir(), apiUrl, environment, detail);
  const client = `demo-${randomBytes(4).toString('hex')}`;
  const owner = ['--account', accountIdOf(publisher.client_id)];
  await runOperator(environment, ['client', 'create', ...owner, '--name', 'Demo site', '--token', client]);
  step(`An operator creates a client of the demo account: ${client}`);

  const token = await mint(apiUrl, publisher, 'push_notifications');
  step('The publisher asks for an access token: POST /oauth/access_token');
  detail('200, Bearer; the token is not shown');

  const secretUrl = `${apiUrl}/push_notifications/signing_secret?client_token=${client}`;
  const { signing_secret = '' } = await call('GET', secretUrl, token);
  step('It reads the signing secret of its client: GET /push_notifications/signing_secret');

  await once(receiver.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/notifications`;
  const query = new URLSearchParams({ client_token: client, url });
  await call('POST', `${apiUrl}/register_push_notifications?${query}`, token);
  step('It registers the URL of its receiver, once: POST /register_push_notifications');
  detail(`200 ${url}`);

  const arrives = once(receiver, 'request', { signal: AbortSignal.timeout(arriveWithinMs) });
  const platformToken = await mint(apiUrl, platform, 'enrichments');
  const event = { client_token: client, platform_id: 'video-1', segments: ['iab:17', 'mood:calm'] };
  const sentAtMs = Date.now();
  const accepted = await call('POST', `${apiUrl}/enrichments`, platformToken, JSON.stringify(event));
  const { notification_id = '' } = accepted;
  step('The platform found segments for the asset video-1: POST /enrichments');
  detail(`202 ${JSON.stringify(accepted)}`);

  const [request, response] = (await arrives.catch(() => {
    throw new Error(`No notification arrived within ${arriveWithinMs / 1000} s.`);
  })) as [IncomingMessage, ServerResponse];
  const milliseconds = Date.now() - sentAtMs;
  const body = await text(request);
  response.writeHead(204).end();
  step(`The notification arrives, ${milliseconds} ms after the event was published:`);
  const headers = Object.entries(request.headers).filter(([header]) => header.startsWith('webhook-'));
  for (const [header, value] of headers) detail(`${header}: ${value}`);
  detail(body);
  const sentAt = Number(request.headers['webhook-timestamp']);
  const expected = sign([signing_secret], notification_id, sentAt, body);
  if (request.headers['webhook-signature'] !== expected) throw new Error('The signature does not match.');
  step("The receiver computes the signature itself, with the client's signing secret: it matches.");

  console.log(`
Look at it again:
  npm run -s operator -- notification show ${notification_id}
  npm run -s operator -- explain ${client} video-1
  in the Temporal UI: ClientToken = "${client}"
Remove the client:
  npm run -s operator -- client delete ${client}`);
}

async function mint(apiUrl: string, who: Credentials, scope: string): Promise<string> {
  const form = new URLSearchParams({ grant_type: 'none', scope, ...who });
  const { access_token = '' } = await call('POST', `${apiUrl}/oauth/access_token`, undefined, form);
  return access_token;
}

/** Calls the service. @throws Error with its answer if that is not a 2xx, or if there is no answer */
async function call(
  method: string,
  url: string,
  token?: string,
  body?: string | URLSearchParams,
): Promise<Record<string, string>> {
  const headers = {
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(typeof body === 'string' && { 'content-type': 'application/json' }),
  };
  const called = `${method} ${new URL(url).pathname}`;
  const signal = AbortSignal.timeout(answerWithinMs);
  const response = await fetch(url, { method, headers, body, signal }).catch(() => {
    throw new Error(`The service does not answer: ${called}`);
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(`${called} answered ${response.status}: ${answer}`);
  return JSON.parse(answer);
}
