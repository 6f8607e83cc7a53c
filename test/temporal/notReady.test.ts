import assert from 'node:assert/strict';
import { startGrpcProxy, status } from '../grpcProxy.js';
import { startService } from '../program.js';
import { servers, uniquePrefix } from '../servers.js';

describe('a process with a worker', () => {
  it('waits, and says so, while Temporal answers only with its frontend', async () => {
    const unavailable = 14;
    // More than the attempts that the client makes by itself for one call.
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

  it('ends with a message if its namespace does not exist', async () => {
    const nowhere = startService({ TEMPORAL_NAMESPACE: uniquePrefix() });
    await assert.rejects(nowhere, /it ended: [\s\S]*not found/i);
  });
});
