import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { readConfig } from '../../src/config.js';
import { type CallObserver, connect, createTemporalClient } from '../../src/temporal/connection.js';
import { startGrpcProxy, status } from '../grpcProxy.js';
import { beginService, startService } from '../program.js';
import { portOf } from '../receiver.js';
import { opened, servers } from '../servers.js';

describe('A Temporal', () => {
  it('that accepts connections and answers nothing in time counts as away', async () => {
    const frozen = opened(createServer((socket) => socket.on('error', () => {})));
    const config = readConfig({ TEMPORAL_ADDRESS: `127.0.0.1:${await portOf(frozen)}` });
    const connection = opened(connect(config));
    const errors: unknown[] = [];
    const observe: CallObserver = (call, _milliseconds, error) => errors.push([call, error]);
    const client = createTemporalClient(connection, config, observe, 300);
    await assert.rejects(client.workflow.start('enrichment', { workflowId: 'a', taskQueue: 'q' }));
    assert.deepEqual(errors, [['start', 'away']]);
  });

  it('that is silent while a process starts is told, stops no API and no end', async () => {
    const frozen = opened(createServer((socket) => socket.on('error', () => {}).resume()));
    const TEMPORAL_ADDRESS = `127.0.0.1:${await portOf(frozen)}`;
    const endsBy = async (role: 'worker' | 'all') => {
      const service = await beginService({ TEMPORAL_ADDRESS }, role);
      await service.says(/waiting for Temporal: Temporal does not answer/);
      if (role === 'all')
        await service.until('it serves', async () => (await fetch(`${service.url}/readyz`)).ok);
      assert.equal(await service.stop(), 0, role);
    };
    await Promise.all([endsBy('worker'), endsBy('all')]);
    // The library itself gives up after 30 s.
  }).timeout(29_000);

  it('that refuses every call in words of its own ends a start, which names where it is', async () => {
    const endsBy = async (code: number) => {
      const proxy = opened(await startGrpcProxy(servers().temporalAddress));
      proxy.answer = (path) => (path.endsWith('/GetSystemInfo') ? status.ok : code);
      const service = await beginService({ TEMPORAL_ADDRESS: proxy.address }, 'worker');
      assert.equal(await service.ended, 1);
      assert.equal(
        service.stderr,
        `Temporal at ${proxy.address} cannot serve: Temporal refuses a call (gRPC ${code}). Look at its log, or correct TEMPORAL_ADDRESS: it may be another server.\n`,
      );
    };
    await Promise.all([3, 6, 11, 12, 15].map(endsBy));
  });

  it('that answers only with its frontend, or whose schedule is late, is waited for by a process with a worker, which says so', async () => {
    // More than the attempts that the client makes by itself for one call. At last the schedule is new, or late itself.
    const codes = [...Array<number>(10).fill(status.unavailable), 9];
    const proxy = opened(await startGrpcProxy(servers().temporalAddress));
    proxy.answer = (path) => (path.endsWith('/DescribeSchedule') ? (codes.shift() ?? status.ok) : status.ok);
    const service = await startService({ TEMPORAL_ADDRESS: proxy.address }, 'worker');
    await service.says(/waiting for Temporal/);
    assert.equal(await service.stop(), 0);
    assert.deepEqual(codes, []);
  });
});
