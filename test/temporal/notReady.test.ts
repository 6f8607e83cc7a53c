import assert from 'node:assert/strict';
import { startService } from '../e2e/service.js';
import { startGrpcProxy, status } from '../grpcProxy.js';
import { servers, uniquePrefix } from '../servers.js';

describe('A Temporal whose frontend answers and whose history service does not yet', () => {
  it('a process with a worker waits for it, and says so', async () => {
    const unavailable = 14;
    // More than the client makes of one call by itself.
    const refused = 11;
    let asked = 0;
    const proxy = await startGrpcProxy(servers().temporalAddress);
    proxy.answer = (path) =>
      path.endsWith('/DescribeSchedule') && ++asked <= refused ? unavailable : status.ok;
    try {
      const service = await startService({ TEMPORAL_ADDRESS: proxy.address });
      assert.match(service.said(), /waiting for Temporal/);
      assert.equal(await service.stop(), 0);
      assert.ok(asked > refused);
    } finally {
      await proxy.close();
    }
  });

  it('a namespace that is not there ends a process with a worker, which says so', async () => {
    const nowhere = startService({ TEMPORAL_NAMESPACE: uniquePrefix() });
    await assert.rejects(nowhere, /the service ended: [\s\S]*not found/i);
  });
});
