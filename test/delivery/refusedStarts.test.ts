import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { readConfig } from '../../src/config.js';
import type { Outbox } from '../../src/delivery/outbox.js';
import type { Logger } from '../../src/log.js';
import { connect, createTemporalClient } from '../../src/temporal/connection.js';
import { startGrpcProxy, status } from '../grpcProxy.js';
import { until } from '../receiver.js';
import { forSuite, servers, useOpened } from '../servers.js';
import { arrivedEvent } from '../service.js';
import { newOutbox } from './newOutbox.js';

describe('While Temporal refuses to start workflows', () => {
  const ofSuite = useOpened();
  const proxy = forSuite(async () => ofSuite(await startGrpcProxy(servers().temporalAddress)));
  let temporal: Client;
  let outbox: Outbox;
  let answers: number[];
  /** The events of each workflow. */
  let started: number[];
  let without: number;
  let said: string[];
  /** The errors of the spans of starts. */
  let spans: (string | undefined)[];
  /** How often the outbox has looked whether it may start a group: it counts the processes then. */
  let looks: number;
  let count = 0;

  before(() => {
    proxy.answer = (path) =>
      path.endsWith('/StartWorkflowExecution') ? (answers.shift() ?? status.ok) : status.ok;
    const config = readConfig({ TEMPORAL_ADDRESS: proxy.address });
    const connection = ofSuite(connect(config));
    temporal = createTemporalClient(connection, config);
  });
  beforeEach(() => {
    [answers, started, without, looks, said, spans] = [[], [], 0, 0, [], []];
    outbox = observed(temporal);
  });
  const say = (first: unknown, second?: string) => said.push(second ?? String(first));
  const log = { warn: say, info: say, error() {} };
  const observed = (client: Client, workflowsPerSecond = 1000) =>
    newOutbox(client, {
      workflowsPerSecond,
      log: log as unknown as Logger,
      processes: () => {
        looks++;
        return 1;
      },
      metrics: {
        started: (events) => started.push(events),
        withoutWorkflow: (events) => {
          without += events;
        },
      },
      tracing: {
        begin: () => ({ traceparent: '', end: (_attributes, error) => spans.push(error) }),
        close: async () => undefined,
      },
    });
  afterEach(() => outbox.close());

  function publish(id = `msg_${++count}`): void {
    const event = arrivedEvent('SITE', `vid-${id}`, { notificationId: id });
    outbox.reserve(event)?.fill({ ...event, claim: 1 });
  }

  it('the outbox rests, and starts what waits once Temporal takes it', async () => {
    answers = Array.from({ length: 1000 }, () => status.resourceExhausted);
    publish();
    await until('the first is refused', () => answers.length < 1000);
    publish();
    looks = 0;
    await sleep(1000);
    assert.ok(looks < 50, `it looked ${looks} times in a second`);
    answers = [];
    await until('both are in workflows', () => started.length === 2);
  });

  it('for a while, it logs that and its end once, and makes one call at a time, after growing pauses; events gather', async () => {
    const { permissionDenied, resourceExhausted } = status;
    const refused = [permissionDenied, resourceExhausted, resourceExhausted, permissionDenied];
    answers = [...refused];
    proxy.calls.length = 0;
    outbox = observed(temporal, 10);
    for (let i = 0; i < 40; i++) {
      publish();
      if (i === 2) await until('three are refused', () => said.length > 0);
    }
    await until('all are in workflows', () => outbox.waiting() === 0);
    assert.equal(said.length, 2);
    assert.match(said[0] ?? '', /(RESOURCE_EXHAUSTED|PERMISSION_DENIED).*accepted, their workflows wait$/);
    assert.equal(said[1], 'Temporal has started all workflows that waited');
    const starts = proxy.calls.filter(({ method }) => method === 'StartWorkflowExecution');
    const [fourthMs = 0, fifthMs = 0] = starts.map(({ at }, i) => at - (starts[i - 1]?.at ?? at)).slice(3);
    assert.ok(fourthMs >= 245 && fifthMs >= 495, `after ${fourthMs} and ${fifthMs} ms`);
    started.sort((a, b) => a - b);
    assert.deepEqual(started, [1, 1, 1, 37]);
    assert.equal(starts.length, refused.length + started.length);
  });

  it('for good, right after an outage: the events after that one get their workflows', async () => {
    answers = [status.resourceExhausted, status.invalidArgument];
    publish();
    await until('the first gets none', () => without === 1);
    publish();
    await until('the second is in a workflow', () => started.length === 1);
    assert.deepEqual(spans, ['unavailable', 'refused', undefined]);
  });

  it('of one name: every other event gets its workflow', async () => {
    const real = temporal.workflow;
    const start: typeof real.start = (type, options) =>
      options.workflowId.endsWith('msg_broken')
        ? Promise.reject(Object.assign(new Error('unavailable'), { code: 14 }))
        : real.start(type, options);
    outbox = observed(
      Object.assign(Object.create(temporal), { workflow: Object.assign(Object.create(real), { start }) }),
    );
    publish('msg_broken');
    for (let i = 0; i < 58; i++) publish();
    await until('all others are in workflows', () => outbox.waiting() === 1, 10_000);
    const stoppedAt = Date.now();
    await outbox.close();
    assert.ok(Date.now() - stoppedAt < 10_000, 'it keeps no process from its end');
    assert.equal(
      started.reduce((sum, events) => sum + events),
      58,
    );
  });
});
