import assert from 'node:assert/strict';
import { Client, Connection } from '@temporalio/client';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { formTokenIn, newLink, Visitor } from '../console/visitor.js';
import { startService } from '../program.js';
import { newPublisher } from '../publisher.js';
import { startReceiver, until } from '../receiver.js';
import { forSuite, servers, useOpened } from '../servers.js';
import { startCollector } from './collector.js';

describe('No secret, token or signing key is ever visible', () => {
  const ofSuite = useOpened();
  const collector = forSuite(async () => ofSuite(await startCollector()));
  const service = forSuite(async () =>
    ofSuite(
      await startService({
        LOG_LEVEL: 'trace',
        RETRY_SCHEDULE_SECONDS: '0.2',
        OTEL_TRACES_EXPORTER: 'otlp',
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      }),
    ),
  );
  const receiver = forSuite(() => startReceiver());
  const publisher = forSuite(() => newPublisher(service));
  let log: string;
  let metrics: string;
  let histories: { workflowId: string; text: string }[];
  const secrets = new Map<string, string>();
  const querySecret = 'tell-nobody-7f3a';
  const pathSecret = 'nor-this-5c1e';

  before(async () => {
    const connection = ofSuite(await Connection.connect({ address: servers().temporalAddress }));
    await wholeFlow();
    metrics = await service.metrics();
    histories = await historiesOf(new Client({ connection }), service.taskQueue);
    assert.equal(await service.stop(), 0, service.said());
    log = service.said();
  });

  /** Tokens, a registration, an event that arrives, one that fails into catch-up, a redelivery, and refused calls. */
  async function wholeFlow(): Promise<void> {
    const { account, call, token } = publisher;
    const client_token = await publisher.newClient();
    secrets.set('the client secret', account.client_secret);
    secrets.set('the access token', token);
    secrets.set('the key of the secrets', service.secretsKey);
    secrets.set("the registered URL's query", querySecret);
    secrets.set("the registered URL's path", pathSecret);

    const url = `${receiver.url}/${pathSecret}?key=${querySecret}`;
    const inQuery = new URLSearchParams({ access_token: token, client_token, url });
    for (const status of [200, 400]) {
      const answer = await fetch(`${service.url}/register_push_notifications?${inQuery}`, { method: 'POST' });
      assert.equal(answer.status, status);
    }
    const shown = await call('GET', 'push_notifications/signing_secret', { client_token });
    assert.match(String(shown.signing_secret), /^whsec_/);
    secrets.set('the signing secret', String(shown.signing_secret).slice('whsec_'.length));
    const gatewayKey = 'gateway-key-51d0c7';
    const headers = { Authorization: `Bearer ${gatewayKey}` };
    await call('PUT', 'push_notifications/headers', { client_token }, { headers });
    secrets.set('the value of a request header', gatewayKey);
    await call('PUT', 'notices', {}, { url: `${receiver.url}?notices=${querySecret}` });
    const ofNotices = await call('GET', 'notices/signing_secret');
    secrets.set("the notices' signing secret", String(ofNotices.signing_secret).slice('whsec_'.length));

    const link = await newLink(service, token);
    const visitor = new Visitor(service.url);
    await visitor.open(link);
    const page = await visitor.get('/console');
    secrets.set("a link's token", new URL(link).hash.slice(1));
    secrets.set("a session's cookie", visitor.secret);
    secrets.set("a form's token", formTokenIn(page.html));
    await visitor.get(`/console/sites/${client_token}?x=${formTokenIn(page.html)}`);
    await visitor.open(link);
    await visitor.submit(page, '/console/sign_out');

    const show = async (id: string) =>
      (await call('GET', `notifications/${id}`, { client_token })) as { state: string; attempts: unknown[] };
    const good = await publisher.publish(client_token, 'good');
    await until('it is delivered', async () => (await show(good)).state === 'delivered');
    assert.equal(receiver.received[0]?.path, `/hook/${pathSecret}?key=${querySecret}`);
    assert.equal(receiver.received[0]?.headers.authorization, `Bearer ${gatewayKey}`);

    receiver.answer = () => 500;
    const bad = await publisher.publish(client_token, 'bad');
    await until('it has failed into catch-up', async () => (await show(bad)).attempts.length >= 5);
    receiver.answer = () => ({ status: 302, headers: { location: `/else?key=${querySecret}` } });
    await call('POST', `notifications/${good}/redeliver`, { client_token });
    await until('it was sent again', async () => (await show(good)).attempts.length >= 2);
    await call('POST', 'push_notifications/test', { client_token });

    // Secrets slip out where something goes wrong.
    const body = `{"access_token":"${token}","client_secret":"${account.client_secret}"`;
    for (const path of ['/enrichments', '/oauth/access_token', `/nowhere/${token}?${querySecret}`]) {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      await fetch(`${service.url}${path}`, { method: 'POST', headers, body });
    }
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

  it('in any span', () => {
    assert.ok(collector.spans.some(({ name, isError }) => name === 'POST' && isError));
    assertAbsent(Buffer.concat(collector.bodies).toString('latin1'), 'the spans');
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
