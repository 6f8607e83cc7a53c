import assert from 'node:assert/strict';
import { Client, Connection } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { type Service, startService } from '../program.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { servers } from '../servers.js';

describe('No secret, token or signing key is ever visible', () => {
  let service: Service;
  let receiver: Receiver;
  let db: Db;
  let connection: Connection;
  let log: string;
  let metrics: string;
  let histories: { workflowId: string; text: string }[];
  const secrets = new Map<string, string>();
  const querySecret = 'tell-nobody-7f3a';
  const pathSecret = 'nor-this-5c1e';

  before(async () => {
    service = await startService({ LOG_LEVEL: 'trace', RETRY_SCHEDULE_SECONDS: '0.2,0.2,0.2,0.5' });
    receiver = await startReceiver();
    db = openDb({
      url: servers().redisUrl,
      prefix: service.prefix,
      log: createLogger('silent', 'test'),
    });
    await waitForRedis(db, 5000);
    connection = await Connection.connect({ address: servers().temporalAddress });
    await wholeFlow();
    metrics = await (await fetch(`${service.adminUrl}/metrics`)).text();
    histories = await historiesOf(new Client({ connection }), service.taskQueue);
    assert.equal(await service.stop(), 0, service.said());
    log = service.said();
  });

  after(async () => {
    await service?.stop();
    await receiver?.close();
    await connection?.close();
    db?.redis.disconnect();
  });

  /** Tokens, a registration, an event that arrives, one that fails into catch-up, a redelivery, and refused calls. */
  async function wholeFlow(): Promise<void> {
    const account = await createAccount(db, { name: 'Example Media', scopes: ['push_notifications'] });
    const platform = await createAccount(db, { name: 'Platform', scopes: ['enrichments'] });
    const { clientToken } = await createClient(db, { accountId: account.account_id, name: 'Example Site' });
    const publisherToken = await token(account, 'push_notifications');
    const platformToken = await token(platform, 'enrichments');
    secrets.set('the client secret', account.client_secret);
    secrets.set("the platform's client secret", platform.client_secret);
    secrets.set('the access token', publisherToken);
    secrets.set("the platform's access token", platformToken);
    secrets.set('the key of the secrets', service.secretsKey);
    secrets.set("the registered URL's query", querySecret);
    secrets.set("the registered URL's path", pathSecret);

    const url = `${receiver.url}/${pathSecret}?key=${querySecret}`;
    const registration = { access_token: publisherToken, client_token: clientToken, url };
    const register = () =>
      fetch(`${service.url}/register_push_notifications?${new URLSearchParams(registration)}`, {
        method: 'POST',
      });
    assert.equal((await register()).status, 200);
    assert.equal((await register()).status, 400);

    const as = (bearer: string) => ({ authorization: `Bearer ${bearer}` });
    const shown = await fetch(
      `${service.url}/push_notifications/signing_secret?client_token=${clientToken}`,
      { headers: as(publisherToken) },
    );
    const { signing_secret } = (await shown.json()) as { signing_secret: string };
    assert.match(signing_secret, /^whsec_/);
    secrets.set('the signing secret', signing_secret.slice('whsec_'.length));

    const gatewayKey = 'gateway-key-51d0c7';
    const setHeaders = await fetch(`${service.url}/push_notifications/headers?client_token=${clientToken}`, {
      method: 'PUT',
      headers: { ...as(publisherToken), 'content-type': 'application/json' },
      body: JSON.stringify({ headers: { Authorization: `Bearer ${gatewayKey}` } }),
    });
    assert.equal(setHeaders.status, 200);
    secrets.set('the value of a request header', gatewayKey);

    const notices = await fetch(`${service.url}/notices`, {
      method: 'PUT',
      headers: { ...as(publisherToken), 'content-type': 'application/json' },
      body: JSON.stringify({ url: `${receiver.url}?notices=${querySecret}` }),
    });
    assert.equal(notices.status, 200);
    const ofNotices = await fetch(`${service.url}/notices/signing_secret`, { headers: as(publisherToken) });
    const { signing_secret: noticesSecret } = (await ofNotices.json()) as { signing_secret: string };
    secrets.set("the notices' signing secret", noticesSecret.slice('whsec_'.length));

    const publish = async (platform_id: string): Promise<string> => {
      const answer = await fetch(`${service.url}/enrichments`, {
        method: 'POST',
        headers: { ...as(platformToken), 'content-type': 'application/json' },
        body: JSON.stringify({ client_token: clientToken, platform_id, segments: ['iab:17'] }),
      });
      return ((await answer.json()) as { notification_id: string }).notification_id;
    };
    const show = async (id: string) => {
      const answer = await fetch(`${service.url}/notifications/${id}?client_token=${clientToken}`, {
        headers: as(publisherToken),
      });
      return (await answer.json()) as { state?: string; attempts?: unknown[] };
    };

    const good = await publish('good');
    await until('it is delivered', async () => (await show(good)).state === 'delivered');
    assert.equal(receiver.received[0]?.path, `/hook/${pathSecret}?key=${querySecret}`);
    assert.equal(receiver.received[0]?.headers.authorization, `Bearer ${gatewayKey}`);

    receiver.answer = () => 500;
    const bad = await publish('bad');
    await until('it has failed into catch-up', async () => ((await show(bad)).attempts?.length ?? 0) >= 5);
    receiver.answer = () => ({ status: 302, headers: { location: `/else?key=${querySecret}` } });
    const redelivered = await fetch(
      `${service.url}/notifications/${good}/redeliver?client_token=${clientToken}`,
      { method: 'POST', headers: as(publisherToken) },
    );
    assert.ok(redelivered.ok, await redelivered.text());
    await until('it was sent again', async () => ((await show(good)).attempts?.length ?? 0) >= 2);
    await fetch(`${service.url}/push_notifications/test?client_token=${clientToken}`, {
      method: 'POST',
      headers: as(publisherToken),
    });

    // Secrets slip out where something goes wrong.
    const unreadable = `{"access_token":"${publisherToken}","client_secret":"${account.client_secret}"`;
    for (const path of ['/enrichments', '/oauth/access_token', `/nowhere/${publisherToken}?${querySecret}`]) {
      await fetch(`${service.url}${path}`, {
        method: 'POST',
        headers: { ...as(platformToken), 'content-type': 'application/json' },
        body: unreadable,
      });
    }
  }

  async function token(
    account: { client_id: string; client_secret: string },
    scope: string,
  ): Promise<string> {
    const { client_id, client_secret } = account;
    const answer = await fetch(`${service.url}/oauth/access_token`, {
      method: 'POST',
      body: new URLSearchParams({ grant_type: 'none', client_id, client_secret, scope }),
    });
    return ((await answer.json()) as { access_token: string }).access_token;
  }

  async function historiesOf(temporal: Client, taskQueue: string) {
    const query = `TaskQueue = '${taskQueue}'`;
    const types = await until('every kind of workflow is listed', async () => {
      const found = new Set<string>();
      for await (const { type } of temporal.workflow.list({ query })) found.add(type);
      return ['enrichment', 'catch-up'].every((type) => found.has(type)) && found;
    });
    assert.ok(types.size >= 2);
    const all = [];
    for await (const { workflowId, runId, memo } of temporal.workflow.list({ query })) {
      const history = await temporal.workflow.getHandle(workflowId, runId).fetchHistory();
      const description = await temporal.workflow.getHandle(workflowId, runId).describe();
      const text = [
        workflowId,
        historyToJSON(history),
        ...decodedPayloads(history),
        ...decodedPayloads(description.raw),
        JSON.stringify(memo ?? {}),
      ].join('\n');
      all.push({ workflowId, text });
    }
    return all;
  }

  /** As it is, and as a URL or base64 would carry it. */
  const spellings = (secret: string): string[] => [
    secret,
    encodeURIComponent(secret),
    Buffer.from(secret).toString('base64').replace(/=+$/, ''),
  ];

  function assertAbsent(text: string, where: string): void {
    for (const [name, secret] of secrets) {
      for (const spelling of spellings(secret)) {
        assert.equal(text.includes(spelling), false, `${name} is in ${where}`);
      }
    }
  }

  it('in any line of the log, at its lowest level', () => {
    assert.match(log, /"msg":"request"/);
    assert.match(log, /attempt failed/);
    for (const line of log.split('\n')) assertAbsent(line, `the log: ${line.slice(0, 120)}`);
  });

  it('in the metrics', () => {
    assert.match(metrics, /asset_update_/);
    assertAbsent(metrics, '/metrics');
  });

  it('in the whole history of any workflow, payloads decoded', () => {
    assert.ok(
      histories.some((h) => h.text.includes('iab:17')),
      'the payloads are decoded',
    );
    for (const { workflowId, text } of histories) assertAbsent(text, `the history of ${workflowId}`);
  });
});

/** The text of every byte array anywhere in a message, however deep: what the Temporal UI could show. */
function decodedPayloads(message: unknown): string[] {
  const found: string[] = [];
  const seen = new Set<unknown>();
  const visit = (value: unknown): void => {
    if (value instanceof Uint8Array) {
      found.push(Buffer.from(value).toString());
      return;
    }
    if (typeof value === 'string') found.push(value);
    if (typeof value !== 'object' || value === null || seen.has(value)) return;
    seen.add(value);
    for (const inner of Object.values(value)) visit(inner);
  };
  visit(message);
  return found;
}
