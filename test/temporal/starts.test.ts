/** Processes that start on a Temporal that is away, refuses or is silent. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { freePort } from '../../local/ports.js';
import { startTemporal } from '../../local/temporal.js';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import { startGrpcProxy, status } from '../grpcProxy.js';
import { type Service, startService, whileStopped } from '../program.js';
import { startProxy } from '../proxy.js';
import { newPublisher, publishOne } from '../publisher.js';
import { startReceiver, until } from '../receiver.js';
import { newFolder, opened, servers } from '../servers.js';
import type { Json } from '../service.js';

describe('A process whose Temporal', () => {
  const untilItWorks = ({ adminUrl }: Service) =>
    until('a worker runs', async () =>
      (await (await fetch(`${adminUrl}/metrics`)).text()).includes('asset_update_retries_under_way'),
    );

  it('is away when it starts serves and delivers, and works once Temporal comes', async () => {
    const port = await freePort();
    const service = await startService({ TEMPORAL_ADDRESS: `127.0.0.1:${port}` });
    await service.says(/waiting for Temporal: Temporal does not answer \(ECONNREFUSED\)/);
    await publishOne(await newPublisher(service));
    // Temporal comes.
    opened(await startProxy(`tcp://${servers().temporalAddress}`, port));
    await untilItWorks(service);
    assert.equal(await service.stop(), 0);
  });

  it('has no such namespace serves and delivers, and works once it is created', async () => {
    const namespace = `late-${randomUUID()}`;
    const service = await startService({ TEMPORAL_NAMESPACE: namespace });
    await service.says(/waiting alone does not cure: Temporal has no such namespace/);
    await publishOne(await newPublisher(service));
    const connection = await Connection.connect({ address: servers().temporalAddress });
    const workflowExecutionRetentionPeriod = { seconds: 86_400 as never };
    await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
    await connection.close();
    await untilItWorks(service);
    assert.equal(await service.stop(), 0);
  });

  it('is silent: a process ends at SIGTERM without its answer, and says so', async () => {
    const temporal = opened(await startTemporal({ dir: await newFolder() }));
    const service = await startService({ TEMPORAL_ADDRESS: temporal.address });
    await untilItWorks(service);
    assert.equal(await whileStopped(temporal.pid, () => service.stop()), 0);
    assert.match(service.stdout, /Temporal did not take the last results in time/);
  });

  it('begins to refuse a process: /readyz says so, and a worker that fails names the reason, and attempts under way end first', async () => {
    const proxy = opened(await startGrpcProxy(servers().temporalAddress));
    let code = status.ok;
    let ofPolls = status.ok;
    // A server tells its version to everybody.
    const answer = (path: string) =>
      ({ GetSystemInfo: status.ok, PollActivityTaskQueue: ofPolls })[path.replace(/.*\//, '')] ?? code;
    proxy.answer = answer;
    const service = await startService({ TEMPORAL_ADDRESS: proxy.address, ATTEMPT_TIMEOUT_SECONDS: '60' });
    const publisher = await newPublisher(service);
    const client = await publisher.newClient();
    const receiver = await startReceiver();
    const hasFailed = () => /the worker failed/.test(service.stdout);
    receiver.answer = async () => {
      for (let i = 0; i < 200 && !hasFailed(); i++) await pause(100);
      return 200;
    };
    await publisher.register(client, receiver.url);
    const isServed = async () => ((await (await fetch(`${service.url}/readyz`)).json()) as Json).temporal;
    for (const refusal of [5, 8, 16, 7]) {
      code = status.ok;
      await service.until('it is served', isServed);
      code = refusal;
      await service.until(`it is refused: gRPC ${code}`, async () => !(await isServed()));
    }
    await service.says(/does not serve the worker/);
    code = status.ok;
    await service.says(/"call":"search attributes".*takes a call again/);
    // The library repeats a call that finds the server unavailable, also a poll.
    ofPolls = status.unavailable;
    proxy.refuse(ofPolls, 'PollActivityTaskQueue');
    await service.says(/retried 6 times/);
    proxy.answer = answer;
    code = status.permissionDenied;
    ofPolls = code;
    let id = '';
    // The library asks for tasks for a minute although it is refused.
    for (let i = 0; !hasFailed(); i++, await pause(5000)) id = await publisher.publish(client, `vid-${i}`);
    assert.equal(await service.ended, 1);
    assert.equal((await getNotification(publisher.db, client, id))?.state, 'delivered');
    const retries = [...service.stdout.matchAll(/retried (\d+) times/g)].map(([, count]) => Number(count));
    assert.equal(Math.max(...retries), 6, 'the library repeats a call in vain, and says so');
    // What the SDK says of it is a record of the log.
    assert.match(service.stdout, /gRPC call .* retried/);
    for (const line of service.stdout.trim().split('\n')) JSON.parse(line);
    assert.match(service.stdout, /PERMISSION_DENIED.*does not serve the worker".*the worker failed/s);
    assert.doesNotMatch(service.said(), /refused by the test/, 'words of a stranger');
    const says = ['PollWorkflowTaskQueue', 'PollActivityTaskQueue'].map(
      (poll) =>
        `Temporal at ${proxy.address} refuses the worker (${poll}). Temporal refuses this caller the call (PERMISSION_DENIED). Give it rights`,
    );
    assert.ok(
      says.some((one) => service.stderr.startsWith(one)),
      service.stderr,
    );
  }).timeout(240_000);
});
