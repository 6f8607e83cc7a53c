import { randomBytes, timingSafeEqual } from 'node:crypto';
import {
  type Accepted,
  type EnrichmentEvent,
  EnrichmentsClient,
  EventNotAccepted,
} from '../../../clients/node/src/client.js';
import { sign } from '../../outgoing/signature.js';
import { checkTarget, TargetRefused } from '../../outgoing/target.js';
import { targetPolicyOf } from '../../outgoing/targetPolicy.js';
import { createAccount, listAccounts, rotateSecret } from '../../redis/records/accounts.js';
import { createClient } from '../../redis/records/clients.js';
import { callApi } from '../callApi.js';
import { type Received, startDemoReceiver } from '../demoReceiver.js';
import type { Operator } from '../operator.js';
import { Refused } from '../refused.js';
import { moment } from '../terminal/moment.js';

const arriveWithinMs = 30_000;
const acceptedWithinMs = 10_000;

interface Credentials {
  client_id: string;
  client_secret: string;
}

export async function demo(operator: Operator): Promise<void> {
  const api = operator.api();
  const receiver = await startDemoReceiver();
  try {
    await checkFirst(operator, api, receiver.url);
    operator.answer(...(await playDemo(operator, api, receiver)));
  } finally {
    await receiver.close();
  }
}

/** @throws Refused if the demo could not complete; nothing is created then */
async function checkFirst(operator: Operator, api: string, url: string): Promise<void> {
  await callApi(`${api}/healthz`);
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

async function playDemo(
  operator: Operator,
  api: string,
  receiver: Awaited<ReturnType<typeof startDemoReceiver>>,
): Promise<[unknown, () => string]> {
  let number = 0;
  const step = (words: string) => operator.tell(`${++number}. ${words}`);
  const detail = (words: string) => operator.tell(`   ${words}`);

  const publisher = await demoAccount(operator, 'Demo by operator', []);
  const platform = await demoAccount(operator, 'Demo platform by operator', ['enrichments']);
  const clientToken = `demo-${randomBytes(4).toString('hex')}`;
  await createClient(await operator.db(), {
    accountId: publisher.accountId,
    name: 'Demo site',
    clientToken,
  });
  await operator.record({
    what: 'client create',
    target: clientToken,
    before: null,
    after: { account_id: publisher.accountId, name: 'Demo site' },
  });
  step(
    `Created: an account of a publisher, one of the platform, and a client of the publisher, ${clientToken}`,
  );

  const token = await mint(api, publisher.credentials, 'push_notifications');
  step('The publisher asks for an access token: POST /oauth/access_token');
  detail('200, Bearer; the token is not shown');

  const secret = await callApi<{ signing_secret: string }>(
    `${api}/push_notifications/signing_secret?client_token=${clientToken}`,
    { headers: { authorization: `Bearer ${token}` } },
  );
  step('It reads the signing secret of its client: GET /push_notifications/signing_secret');

  const query = new URLSearchParams({ client_token: clientToken, url: receiver.url });
  const registered = await callApi<{ url: string }>(`${api}/register_push_notifications?${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
  });
  step('It registers the URL of its receiver, once: POST /register_push_notifications');
  detail(`200 ${registered.url}`);

  const platformId = 'video-1';
  const event = { client_token: clientToken, platform_id: platformId, segments: ['iab:17', 'mood:calm'] };
  const { published, sentAtMs } = await publish(api, platform.credentials, event);
  step(`The platform found segments for the asset ${platformId}: POST /enrichments`);
  detail(`202 ${JSON.stringify(published)}`);
  if (published.notification !== 'queued') throw new Refused('The event made no notification.');

  const received = await receiver.next(arriveWithinMs).catch(() => {
    throw new Refused(
      `No notification arrived within ${arriveWithinMs / 1000} s. See: notification show ${published.notification_id}`,
    );
  });
  const milliseconds = received.atMs - sentAtMs;
  step(`The notification arrives, ${milliseconds} ms after the event was published:`);
  for (const name of notificationHeaders) detail(`${name}: ${String(received.headers[name] ?? '')}`);
  detail('');
  detail(received.body);
  if (!isSigned(received, secret.signing_secret)) throw new Refused('The signature does not match.');
  step("The receiver computes the signature itself, with the client's signing secret: it matches.");

  const id = published.notification_id;
  const ui = operator.temporalUi();
  const workflows = ui && workflowsUrl(ui, operator.config().TEMPORAL_NAMESPACE, clientToken);
  return [
    {
      client_token: clientToken,
      account_id: publisher.accountId,
      platform_id: platformId,
      event_id: published.event_id,
      notification_id: id,
      url: registered.url,
      received: {
        at: moment(received.atMs),
        milliseconds,
        headers: Object.fromEntries(
          notificationHeaders.map((name) => [name, received.headers[name] ?? null]),
        ),
        body: received.body,
        signature: 'verified',
      },
      temporal_ui: workflows ?? null,
    },
    () =>
      [
        '',
        'Look at it again:',
        `  npm run -s operator -- notification show ${id}`,
        `  npm run -s operator -- explain ${clientToken} ${platformId}`,
        workflows ? `  ${workflows}` : `  in the Temporal UI: ClientToken = "${clientToken}"`,
        'Remove the client:',
        `  npm run -s operator -- client delete ${clientToken}`,
      ].join('\n'),
  ];
}

const notificationHeaders = [
  'content-type',
  'user-agent',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
  'webhook-client-token',
] as const;

/** Returns the demo's own account: the first run creates it, and each later run gives it a new secret. */
async function demoAccount(
  operator: Operator,
  name: string,
  scopes: string[],
): Promise<{ accountId: string; credentials: Credentials }> {
  const db = await operator.db();
  const existing = (await listAccounts(db)).find((account) => account.name === name && !account.disabled);
  if (existing !== undefined) {
    const { client_secret } = await rotateSecret(db, existing.accountId, { now: false });
    await operator.record({
      what: 'account rotate-secret',
      target: existing.accountId,
      before: null,
      after: { old_one_ends: 'in 24 h' },
    });
    return {
      accountId: existing.accountId,
      credentials: { client_id: existing.clientId, client_secret },
    };
  }
  const { account_id, client_id, client_secret, ...created } = await createAccount(db, { name, scopes });
  await operator.record({
    what: 'account create',
    target: account_id,
    before: null,
    after: { name, client_id, scopes: created.scopes },
  });
  return { accountId: account_id, credentials: { client_id, client_secret } };
}

/** Publishes like a platform, through clients/node. @throws Refused if the event is not accepted in time */
async function publish(
  api: string,
  { client_id: clientId, client_secret: clientSecret }: Credentials,
  event: EnrichmentEvent,
): Promise<{ published: Accepted; sentAtMs: number }> {
  let sentAtMs = Date.now();
  const timed: typeof fetch = (url, init) => {
    // The client first asks for a token, which does not count.
    sentAtMs = Date.now();
    return fetch(url, init);
  };
  const client = new EnrichmentsClient({ url: api, clientId, clientSecret, fetch: timed });
  try {
    const [published] = await Promise.all([client.send(event), client.close(acceptedWithinMs)]);
    return { published, sentAtMs };
  } catch (err) {
    if (!(err instanceof EventNotAccepted)) throw err;
    throw new Refused(`POST /enrichments: ${err.code}: ${err.message}`);
  }
}

async function mint(api: string, credentials: Credentials, scope: string): Promise<string> {
  const body = new URLSearchParams({ grant_type: 'none', scope, ...credentials });
  const token = await callApi<{ access_token: string }>(`${api}/oauth/access_token`, {
    method: 'POST',
    body,
  });
  return token.access_token;
}

/** Standard Webhooks: at least one of the signatures must match. */
function isSigned(received: Received, secret: string): boolean {
  const { headers, body } = received;
  const timestamp = Number(headers['webhook-timestamp']);
  const expected = Buffer.from(sign([secret], String(headers['webhook-id']), timestamp, body));
  return String(headers['webhook-signature'])
    .split(' ')
    .map((given) => Buffer.from(given))
    .some((given) => given.length === expected.length && timingSafeEqual(given, expected));
}

function workflowsUrl(ui: string, namespace: string, clientToken: string): string {
  const query = encodeURIComponent(`ClientToken = "${clientToken}"`);
  return `${ui}/namespaces/${encodeURIComponent(namespace)}/workflows?query=${query}`;
}
