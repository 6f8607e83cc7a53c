import assert from 'node:assert/strict';
import { Connection } from '@temporalio/client';
import { createLogger } from '../../src/log.js';
import { ensureSearchAttributes } from '../../src/temporal/searchAttributes.js';
import { startGrpcProxy, status } from '../grpcProxy.js';
import { succeeds, until } from '../receiver.js';
import { forSuite, opened, servers, uniquePrefix, useOpened } from '../servers.js';

const isOperatorCall = (path: string) => path.includes('OperatorService');

describe('A server without an operator service for us (Temporal Cloud)', () => {
  const log = createLogger('silent', 'test');
  let connection: Connection;
  let namespace: string;
  const ofSuite = useOpened();
  const proxy = forSuite(async () => ofSuite(await startGrpcProxy(servers().temporalAddress)));
  before(async () => {
    connection = ofSuite(await Connection.connect({ address: proxy.address }));
  });
  beforeEach(async () => {
    namespace = await newNamespace();
  });

  /** One that nobody has given search attributes. */
  async function newNamespace(): Promise<string> {
    const namespace = uniquePrefix();
    const connection = opened(await Connection.connect({ address: servers().temporalAddress }));
    await connection.workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: { seconds: 86_400 as never },
    });
    const count = () => connection.workflowService.countWorkflowExecutions({ namespace });
    await until('it is known', () => succeeds(count()));
    return namespace;
  }

  const everything = ['ClientToken', 'PlatformId', 'EventId', 'NotificationState', 'HttpStatus'];

  for (const code of [status.permissionDenied, status.unimplemented]) {
    it(`answers ${code}: the attributes must exist, or are named with the command that adds them`, async () => {
      const calls: string[] = [];
      proxy.answer = (path) => {
        calls.push(path);
        return isOperatorCall(path) ? code : status.ok;
      };
      await ensureSearchAttributes(connection, 'default', log);
      assert.equal(calls.length, 2, 'the list, and one query while all exist');
      await assert.rejects(ensureSearchAttributes(connection, namespace, log), (err: Error) => {
        for (const name of everything) assert.match(err.message, new RegExp(`${name} \\(`));
        const adds = `tcld namespace search-attributes add --namespace ${namespace} .*"ClientToken=KeywordList"`;
        assert.match(err.message, new RegExp(adds));
        return err.name === 'ConfigError';
      });
    });
  }

  it('may list but not add: the service ends and names the missing ones', async () => {
    proxy.answer = (path) => (path.endsWith('AddSearchAttributes') ? status.permissionDenied : status.ok);
    await assert.rejects(ensureSearchAttributes(connection, namespace, log), /ClientToken \(KeywordList\)/);
    proxy.answer = () => status.ok;
    await ensureSearchAttributes(connection, namespace, log);
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
    for (const name of everything) assert.ok(name in customAttributes, name);
  });

  it('has no room in a namespace with a KeywordList of another: the service ends and names all, and a remedy', async () => {
    proxy.answer = () => status.ok;
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes: { Tags: 7 } });
    await assert.rejects(
      ensureSearchAttributes(connection, namespace, log),
      /^ConfigError: .* no room for .*ClientToken.*: .*others have Tags\.\n.*namespace of its own \(TEMPORAL_NAMESPACE\)/,
    );
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
