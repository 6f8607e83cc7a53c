import assert from 'node:assert/strict';
import { Connection } from '@temporalio/client';
import { createLogger } from '../../src/log.js';
import { ensureSearchAttributes } from '../../src/temporal/searchAttributes.js';
import { type GrpcProxy, startGrpcProxy, status } from '../grpcProxy.js';
import { startService } from '../program.js';
import { succeeds, until } from '../receiver.js';
import { servers, uniquePrefix } from '../servers.js';

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
        namespace,
        workflowExecutionRetentionPeriod: { seconds: 86_400 as never },
      });
      const count = () => connection.workflowService.countWorkflowExecutions({ namespace });
      await until('it is known', () => succeeds(count()));
    } finally {
      await connection.close();
    }
    return namespace;
  }

  const everything = ['ClientToken', 'PlatformId', 'EventId', 'NotificationState', 'HttpStatus'];

  it('denied: the service starts if the search attributes exist', async () => {
    proxy.answer = (path) => (isOperatorCall(path) ? status.permissionDenied : status.ok);
    const service = await startService({ TEMPORAL_ADDRESS: proxy.address });
    assert.match(service.said(), /the search attributes exist/);
    assert.equal(await service.stop(), 0);
  });

  it('unimplemented: the service ends if they are missing, and names them and the command that adds them', async () => {
    proxy.answer = (path) => (isOperatorCall(path) ? status.unimplemented : status.ok);
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

  describe('to a connection', () => {
    const log = createLogger('silent', 'test');
    let connection: Connection;
    let namespace: string;
    before(async () => {
      connection = await Connection.connect({ address: proxy.address });
    });
    beforeEach(async () => {
      namespace = await newNamespace();
    });
    after(() => connection.close());

    it('may list but not add: the service ends and names the missing ones', async () => {
      proxy.answer = (path) => (path.endsWith('AddSearchAttributes') ? status.permissionDenied : status.ok);
      await assert.rejects(ensureSearchAttributes(connection, namespace, log), /ClientToken \(KeywordList\)/);
      proxy.answer = () => status.ok;
      await ensureSearchAttributes(connection, namespace, log);
      const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
      for (const name of everything) assert.ok(name in customAttributes, name);
    });

    it('names one of another type, whether the server lists it or not', async () => {
      proxy.answer = () => status.ok;
      const searchAttributes = { HttpStatus: 2 };
      await connection.operatorService.addSearchAttributes({ namespace, searchAttributes });
      const onlyThat = (err: Error) => /HttpStatus \(Int\)/.test(err.message);
      await assert.rejects(ensureSearchAttributes(connection, namespace, log), onlyThat);
      proxy.answer = (path) => (isOperatorCall(path) ? status.unimplemented : status.ok);
      await assert.rejects(ensureSearchAttributes(connection, namespace, log), onlyThat);
    });
  });
});
