import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { readConfig } from '../../src/config.js';
import {
  type CallObserver,
  connect,
  createTemporalClient,
  replaceable,
  untilAvailable,
} from '../../src/temporal/connection.js';
import { ensureSearchAttributes } from '../../src/temporal/searchAttributes.js';
import { startGrpcProxy, status } from '../grpcProxy.js';
import { beginService, type Service, startService } from '../program.js';
import { begun, portOf, until, within } from '../receiver.js';
import { opened, servers, useOpened } from '../servers.js';
import { keptLog } from '../service.js';

describe('A Temporal', () => {
  const ofSuite = useOpened();
  let silent: Promise<void>;
  let late: Promise<void>;
  before(() => {
    silent = begun(startsBesideSilent());
    late = begun(startsBesideLate());
  });

  async function startsBesideSilent() {
    const frozen = ofSuite(createServer((socket) => socket.on('error', () => {}).resume()));
    const TEMPORAL_ADDRESS = `127.0.0.1:${await portOf(frozen)}`;
    // The library itself gives up after 30 s.
    const endsSoon = async (service: Service) => {
      const from = performance.now();
      assert.equal(await service.stop(), 0);
      assert.ok(performance.now() - from < 15_000, service.said());
    };
    const endsBy = async (role: 'worker' | 'all') => {
      const service = await beginService({ TEMPORAL_ADDRESS }, role);
      await service.says(/waiting for Temporal: Temporal does not answer/);
      if (role === 'all')
        await service.until('it serves', async () => (await fetch(`${service.url}/readyz`)).ok);
      await endsSoon(service);
    };
    const endsEarly = async () => {
      const service = await beginService({ TEMPORAL_ADDRESS });
      const isBuilt = async () => (await service.metrics()).includes('asset_update_claims_under_way');
      await service.until('it waits for Temporal alone', isBuilt);
      await endsSoon(service);
      assert.match(service.stdout, /"ending"/);
      assert.doesNotMatch(service.stdout, /"ready"/);
    };
    // It is ready without Temporal after 10 s.
    await Promise.all([endsBy('worker'), endsBy('all'), within(9_000, endsEarly)]);
  }

  async function startsBesideLate() {
    // More than the attempts that the client makes by itself for one call. At last the schedule is new, or late itself.
    const codes = [...Array<number>(10).fill(status.unavailable), 9];
    const proxy = ofSuite(await startGrpcProxy(servers().temporalAddress));
    proxy.answer = (path) => (path.endsWith('/DescribeSchedule') ? (codes.shift() ?? status.ok) : status.ok);
    const service = await startService({ TEMPORAL_ADDRESS: proxy.address }, 'worker');
    await service.says(/waiting for Temporal/);
    assert.equal(await service.stop(), 0);
    assert.deepEqual(codes, []);
  }

  it('that accepts connections and answers nothing in time counts as away', async () => {
    const frozen = opened(createServer((socket) => socket.on('error', () => {})));
    const config = readConfig({ TEMPORAL_ADDRESS: `127.0.0.1:${await portOf(frozen)}` });
    const first = opened(connect(config));
    const { connection, replace } = replaceable(first, 300);
    const errors: unknown[] = [];
    const observe: CallObserver = (call, _milliseconds, error) => errors.push([call, error]);
    const client = createTemporalClient(connection, config, observe, 300);
    await assert.rejects(client.workflow.start('enrichment', { workflowId: 'a', taskQueue: 'q' }));
    assert.deepEqual(errors, [['start', 'away']]);
    const asked = () => first.workflowService.getSystemInfo({}).then(String, String);
    assert.doesNotMatch(await first.withDeadline(Date.now(), asked), /closed|shut down/);
    replace(opened(connect(config)));
    await until('the former is closed', async () => /closed|shut down/.test(await asked()));
  });

  it('that is silent while a process starts is told, stops no API and no end', () => silent);

  async function begins(code: number, isKnown = false) {
    const proxy = opened(await startGrpcProxy(servers().temporalAddress));
    proxy.answer = (path) => (isKnown && path.endsWith('/GetSystemInfo') ? status.ok : code);
    const config = readConfig({ TEMPORAL_ADDRESS: proxy.address });
    const connection = opened(connect(config));
    const { log, lines } = keptLog();
    const ending = new AbortController();
    const waiting = { config, log, ended: ending.signal, begun: () => {} };
    const starting = untilAvailable(waiting, () =>
      ensureSearchAttributes(connection, config.TEMPORAL_NAMESPACE, log),
    );
    return { address: proxy.address, starting: begun(starting), lines, ending };
  }

  it('that refuses every call in words of its own ends a start, which names where it is', async () => {
    for (const code of [6, 11, 12, 15, 3]) {
      const { address, starting } = await begins(code, true);
      const message = `Temporal at ${address} cannot serve: Temporal refuses a call (gRPC ${code}). Look at its log, or correct TEMPORAL_ADDRESS: it may be another server.`;
      await assert.rejects(starting, { name: 'ConfigError', message });
      if (code !== 3) continue;
      const service = await beginService({ TEMPORAL_ADDRESS: address }, 'worker');
      assert.equal(await service.ended, 1);
      assert.equal(service.stderr, `${message}\n`);
    }
  });

  for (const [code, says] of [
    [16, /^waiting for Temporal, which waiting alone does not cure: .*UNAUTHENTICATED/],
    [7, /^waiting for Temporal, which waiting alone does not cure: .*PERMISSION_DENIED/],
    [8, /^waiting for Temporal: .*RESOURCE_EXHAUSTED/],
  ] as const)
    it(`that refuses the caller for now is waited for until the end: it is said whether waiting cures it (gRPC ${code})`, async () => {
      const { starting, lines, ending } = await begins(code);
      await until('it is said', () => lines.some(({ msg }) => says.test(String(msg))));
      ending.abort();
      await assert.rejects(starting, { name: 'AbortError' });
    });

  it('that answers only with its frontend, or whose schedule is late, is waited for by a process with a worker, which says so', () =>
    late);
});
