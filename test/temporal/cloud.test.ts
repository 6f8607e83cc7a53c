import assert from 'node:assert/strict';
import { Connection } from '@temporalio/client';
import { readConfig } from '../../src/config.js';
import { Outbox } from '../../src/delivery/outbox.js';
import { createLogger, type Logger } from '../../src/log.js';
import type { ArrivedEvent, ClaimedEvent } from '../../src/redis/owed/claim.js';
import { clientOf, connect } from '../../src/temporal/connection.js';
import { ensureSearchAttributes } from '../../src/temporal/searchAttributes.js';
import { type GrpcProxy, startGrpcProxy, status } from '../grpcProxy.js';
import { startService } from '../program.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { servers, uniquePrefix } from '../servers.js';
import { type Harness, startHarness } from '../service.js';

const isOperatorCall = (path: string) => path.includes('OperatorService');

describe('A server without an operator service for us (Temporal Cloud)', () => {
  let proxy: GrpcProxy;
  before(async () => {
    proxy = await startGrpcProxy(servers().temporalAddress);
  });
  after(() => proxy.close());

  /** One that nobody has given search attributes. */
  async function newNamespace(): Promise<string> {
    const namespace = uniquePrefix();
    const connection = await Connection.connect({ address: servers().temporalAddress });
    try {
      await connection.workflowService.registerNamespace({
        ...{ namespace, workflowExecutionRetentionPeriod: { seconds: 86_400 as never } },
      });
      await until('it is known', () =>
        connection.workflowService
          .countWorkflowExecutions({ namespace })
          .then(() => true)
          .catch(() => false),
      );
    } finally {
      await connection.close();
    }
    return namespace;
  }

  const everything = ['ClientToken', 'PlatformId', 'EventId', 'NotificationState', 'HttpStatus'];

  for (const [what, code] of [
    ['denied', status.permissionDenied],
    ['unimplemented', status.unimplemented],
  ] as const) {
    it(`${what}: the service starts if the search attributes exist`, async () => {
      proxy.answer = (path) => (isOperatorCall(path) ? code : status.ok);
      const service = await startService({ TEMPORAL_ADDRESS: proxy.address });
      assert.match(service.said(), /the search attributes exist/);
      assert.equal(await service.stop(), 0);
    });

    it(`${what}: the service ends if they are missing, and names them and the command that adds them`, async () => {
      proxy.answer = (path) => (isOperatorCall(path) ? code : status.ok);
      const namespace = await newNamespace();
      const env = { TEMPORAL_ADDRESS: proxy.address, TEMPORAL_NAMESPACE: namespace };
      await assert.rejects(startService(env), (err: Error) => {
        for (const name of everything) assert.match(err.message, new RegExp(`${name} \\(`));
        assert.match(err.message, /HttpStatus \(Int\)/);
        assert.match(
          err.message,
          new RegExp(
            `tcld namespace search-attributes add --namespace ${namespace} .*"ClientToken=KeywordList"`,
          ),
        );
        assert.doesNotMatch(err.message, /at .*searchAttributes/, 'no stack');
        return true;
      });
    });
  }

  it('may list but not add: the service ends and names the missing ones', async () => {
    proxy.answer = (path) => (path.endsWith('AddSearchAttributes') ? status.permissionDenied : status.ok);
    const connection = await Connection.connect({ address: proxy.address });
    const log = createLogger('silent', 'test');
    try {
      const namespace = await newNamespace();
      await assert.rejects(ensureSearchAttributes(connection, namespace, log), /ClientToken \(KeywordList\)/);
      proxy.answer = () => status.ok;
      await ensureSearchAttributes(connection, namespace, log);
      const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
      for (const name of everything) assert.ok(name in customAttributes, name);
    } finally {
      await connection.close();
    }
  });

  it('names one of another type, whether the server lists it or not', async () => {
    const connection = await Connection.connect({ address: proxy.address });
    const log = createLogger('silent', 'test');
    try {
      const namespace = await newNamespace();
      proxy.answer = () => status.ok;
      await connection.operatorService.addSearchAttributes({
        ...{ namespace, searchAttributes: { HttpStatus: 2 } },
      });
      const onlyThat = (err: Error) => /HttpStatus \(Int\)/.test(err.message);
      await assert.rejects(ensureSearchAttributes(connection, namespace, log), onlyThat);
      proxy.answer = (path) => (isOperatorCall(path) ? status.unimplemented : status.ok);
      await assert.rejects(ensureSearchAttributes(connection, namespace, log), onlyThat);
    } finally {
      await connection.close();
    }
  });
});

describe('A limit of the namespace is reached (RESOURCE_EXHAUSTED)', () => {
  let proxy: GrpcProxy;
  let receiver: Receiver;
  let h: Harness;
  let refusals: number;
  const said: string[] = [];

  before(async () => {
    proxy = await startGrpcProxy(servers().temporalAddress);
    receiver = await startReceiver();
    const silent = createLogger('silent', 'test');
    const log = Object.assign(Object.create(silent) as Logger, {
      warn: (first: unknown, second?: string) => said.push(second ?? String(first)),
    });
    h = await startHarness({ TEMPORAL_ADDRESS: proxy.address }, 'all', { log });
    await h.startWorker();
  });
  after(async () => {
    await h.close();
    await receiver.close();
    await proxy.close();
  });
  beforeEach(() => {
    said.length = 0;
    proxy.calls.length = 0;
    proxy.answer = (path) =>
      path.endsWith('/StartWorkflowExecution') && refusals-- > 0 ? status.resourceExhausted : status.ok;
  });

  const starts = () => proxy.calls.filter(({ method }) => method === 'StartWorkflowExecution');

  it('once: the event is delivered, and gets its workflow by the second call', async () => {
    refusals = 1;
    const client = await h.newClient(receiver.url);
    const { id } = await h.publish({ client, asset: 'once' });
    await until('delivered', async () => (await h.notification(client, id))?.state === 'delivered');
    assert.equal((await (await h.workflowOf(client, id)).result()).state, 'delivered');
    assert.equal(starts().length, 2);
  });

  it('for a while, at an API: it logs that once and makes one call at a time, after growing pauses; events gather', async () => {
    refusals = 4;
    const config = readConfig({ TEMPORAL_ADDRESS: proxy.address });
    const connection = connect(config);
    const started: number[] = [];
    const outbox = new Outbox({
      ...{ temporal: clientOf(connection, config), taskQueue: h.taskQueue, log: h.deps.log },
      ...{ workflowsPerSecond: 10, processes: () => 1, gatherMs: 0, eager: false },
      metrics: { started: (events) => started.push(events), withoutWorkflow() {} },
    });
    try {
      for (let i = 0; i < 40; i++) {
        const event: ClaimedEvent & ArrivedEvent = {
          notify: true,
          ...{ clientToken: h.taskQueue, platformId: `vid-${i}`, eventId: 'an-1', segments: ['x'] },
          ...{ notificationId: `msg_${i}`, priority: 'live', acceptedAt: Date.now(), claim: 1 },
        };
        outbox.reserve(event)?.fill(event);
        if (i === 2) await until('three are refused', () => said.length > 0);
      }
      await until('all are in workflows', () => outbox.waiting() === 0);
    } finally {
      await outbox.close();
      await connection.close();
    }
    assert.equal(said.length, 1);
    assert.match(said[0] ?? '', /RESOURCE_EXHAUSTED.*events are delivered, their workflows wait/);
    const [, , third = { at: 0 }, fourth = { at: 0 }, fifth = { at: 0 }] = starts();
    const gaps = [fourth.at - third.at, fifth.at - fourth.at];
    assert.ok(
      gaps.every((ms, i) => ms >= 250 * 2 ** i - 5),
      `calls after ${gaps.join(', ')} ms`,
    );
    assert.deepEqual(started, [1, 1, 1, 37]);
    assert.equal(starts().length, 4 + started.length);
  });
});
