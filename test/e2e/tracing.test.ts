import assert from 'node:assert/strict';
import type { Role } from '../../src/compose.js';
import { refusalOf, type Service, startService } from '../program.js';
import { newPublisher } from '../publisher.js';
import { startReceiver, until } from '../receiver.js';
import { forTest, uniquePrefix, useOpened } from '../servers.js';
import { type Collector, type Span, startCollector } from './collector.js';

const caller = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };

describe('Tracing', function () {
  this.timeout(120_000);
  let collector: Collector;
  const receiver = forTest(() => startReceiver());
  /** The API; its worker is another process. */
  let api: Service;
  let env: Record<string, string>;

  const ofSuite = useOpened();
  before(async () => {
    collector = ofSuite(await startCollector());
    const prefix = uniquePrefix();
    env = {
      KEY_PREFIX: prefix,
      TASK_QUEUE: `${prefix}queue`,
      RETRY_SCHEDULE_SECONDS: '0.3',
      // Processes of one installation share it.
      SECRETS_KEY: '',
      OTEL_TRACES_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_BSP_SCHEDULE_DELAY: '100',
      OTEL_SERVICE_NAME: 'notifier',
      OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=media',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    };
    [api] = await Promise.all([start({}, 'api'), start({}, 'worker')]);
  });

  it('leads from the caller’s span through acceptance, workflow and activity to the attempt', async () => {
    // A workflow has an activity if it starts before the receiver has answered.
    receiver.answer = async () => {
      await span('StartWorkflow:enrichment');
      return 200;
    };
    const publish = await setUp(api);
    await publish('a', `00-${caller.traceId}-${caller.spanId}-01`);
    const request = await span('POST /enrichments');
    const [accept, start_, activity, attempt] = [
      await span('accept'),
      await span('StartWorkflow:enrichment'),
      await span('RunActivity:deliver'),
      await span('POST'),
    ];
    assert.deepEqual([request.traceId, request.parentSpanId], [caller.traceId, caller.spanId]);
    assert.deepEqual([accept.traceId, accept.parentSpanId], [caller.traceId, request.spanId]);
    for (const one of [start_, activity, attempt]) {
      assert.deepEqual([one.traceId, one.parentSpanId], [caller.traceId, accept.spanId], one.name);
    }
    const kinds = [request, accept, start_, activity, attempt].map(({ kind }) =>
      kind.replace('SPAN_KIND_', ''),
    );
    assert.deepEqual(kinds, ['SERVER', 'INTERNAL', 'PRODUCER', 'INTERNAL', 'CLIENT']);
    assert.equal(request.attributes['http.response.status_code'], 202);
    assert.equal(accept.attributes['asset_update.result'], 'queued');
    assert.equal(attempt.attributes['http.response.status_code'], 200);
    assert.deepEqual(
      [attempt.attributes['url.scheme'], attempt.attributes['server.address']],
      ['http', '127.0.0.1'],
    );
    assert.equal(start_.attributes.temporalWorkflowId, activity.attributes.temporalWorkflowId);
    assert.equal(attempt.resource['service.name'], 'notifier');
    assert.equal(attempt.resource['deployment.environment.name'], 'test');
    assert.equal(collector.headers['x-tenant'], 'media');
    assert.equal(receiver.received[0]?.headers.traceparent, undefined, 'the receiver gets no traceparent');
  });

  it('exports no trace that the caller does not sample, and ignores an invalid header', async () => {
    const publish = await setUp(api);
    const unsampled = 'f'.repeat(32);
    await publish('a', `00-${unsampled}-${caller.spanId}-00`);
    await until('sent', () => receiver.received.length === 1);
    await publish('b', 'not-a-traceparent');
    await until('it begins a trace', () =>
      named('POST /enrichments').some(({ parentSpanId }) => parentSpanId === ''),
    );
    assert.ok(collector.spans.every(({ traceId }) => traceId !== unsampled));
  });

  it('shows the code of a refused request, and nothing of a caller without a valid token', async () => {
    const publisher = await newPublisher(api);
    const strange = 'e'.repeat(32);
    assert.equal((await post(api, 'nobody', [], `00-${strange}-${caller.spanId}-01`)).status, 401);
    assert.equal((await post(api, publisher.token, [])).status, 400);
    const { attributes, isError } = await until('it is exported', () =>
      named('POST /enrichments').find((one) => one.attributes['http.response.status_code'] === 400),
    );
    assert.deepEqual([attributes['asset_update.code'], isError], ['invalid_request', false]);
    assert.ok(collector.spans.every(({ traceId }) => traceId !== strange));
  });

  it('has a failed attempt and its retry in the event’s trace', async () => {
    collector.spans.length = 0;
    const publish = await setUp(api);
    receiver.answer = () => (receiver.received.length === 1 ? 500 : 200);
    await publish('a');
    const request = await span('POST /enrichments');
    const attempts = await until('both are exported', () => {
      const found = named('POST').filter(({ traceId }) => traceId === request.traceId);
      return found.length === 2 && found;
    });
    const accept = await span('accept');
    assert.equal(request.parentSpanId, '', 'it begins the trace');
    for (const { parentSpanId } of attempts) assert.equal(parentSpanId, accept.spanId);
    const results = attempts.map(({ attributes, isError }) => [attributes['error.type'], isError]);
    assert.deepEqual(results, [
      ['http_status', true],
      [undefined, false],
    ]);
  });

  it('delivers events and stops in time although the collector is unreachable', async () => {
    const service = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' });
    const publish = await setUp(service);
    await publish('a');
    await until('delivered', () => receiver.received.length === 1);
    assert.equal(await service.stop(), 0);
    assert.match(service.said(), /spans cannot be exported/);
  });

  it('does not begin with what OpenTelemetry would replace by its defaults: each is named', async () => {
    const wrong = {
      OTEL_TRACES_SAMPLER: 'a-secret',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_BSP_SCHEDULE_DELAY: 'a-secret',
    };
    const said = await refusalOf({ ...env, ...wrong, OTEL_EXPORTER_OTLP_ENDPOINT: 'a-secret' });
    assert.match(said, /ended: wrong settings of OpenTelemetry: /);
    for (const name of [...Object.keys(wrong), 'export URL']) assert.match(said, new RegExp(name));
    assert.doesNotMatch(said, /a-secret|\n +at /);
  });

  const start = async (more: Record<string, string> = {}, role: Role = 'all') =>
    ofSuite(await startService({ ...env, ...more }, role));

  async function setUp(service: Service) {
    const publisher = await newPublisher(service);
    const client = await publisher.newClient();
    await publisher.register(client, receiver.url);
    return (asset: string, traceparent?: string) =>
      post(
        service,
        publisher.token,
        { client_token: client, platform_id: asset, segments: ['iab:17'] },
        traceparent,
      );
  }

  function post({ url }: Service, token: string, body: object, traceparent?: string) {
    return fetch(`${url}/enrichments`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        ...(traceparent && { traceparent }),
      },
      body: JSON.stringify(body),
    });
  }

  function named(name: string): Span[] {
    return collector.spans.filter((one) => one.name === name);
  }

  function span(name: string): Promise<Span> {
    return until(`${name} is exported`, () => named(name)[0]);
  }
});
