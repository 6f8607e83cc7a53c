import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startTemporal, type TemporalServer } from '../../local/temporal.js';
import { removeNoticesUrl } from '../../src/redis/records/notices.js';
import { owedNotices } from '../../src/redis/records/owedNotices.js';
import { type Harness, startHarness, until } from '../delivery/harness.js';
import { allHandedOver, receivedOf, type Scene, startScene, toldOf } from './scene.js';

describe('Notices while Temporal is unavailable', function () {
  this.timeout(120_000);
  let dir: string;
  let temporal: TemporalServer;
  let h: Harness;
  let scene: Scene;

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-test-'));
    temporal = await startTemporal({ dir });
    h = await startHarness({ TEMPORAL_ADDRESS: temporal.address, FAILING_AFTER: '2' });
    await h.startWorker();
    scene = await startScene(h);
  });
  after(async () => {
    await h.close();
    await scene.close();
    await temporal.stop();
    await rm(dir, { recursive: true, force: true });
  });

  it('deliveries go on, and the notice is sent when Temporal is available again', async () => {
    const [site, well] = [await scene.newSite(), await scene.newSite()];
    process.kill(temporal.pid, 'SIGKILL');
    await temporal.child.exited;
    await scene.fail(site);
    const { id } = await h.publish({ client: well.client, asset: 'vid-1' });
    await until('the other is delivered', async () => {
      return (await h.notification(well.client, id))?.state === 'delivered';
    });
    await until('the notice waits in Redis', async () => {
      const { health, notices } = await owedNotices(h.db, site.client);
      return health === 'failing' && notices.length === 1;
    });
    assert.equal(receivedOf(scene.told, site.client).length, 0);
    temporal = await startTemporal({ dir, port: temporal.port });
    await until('the sweep runs again', () =>
      h.sweep().then(
        () => true,
        () => false,
      ),
    );
    await toldOf(scene.told, site.client, 'endpoint.failing', site.secret);
    await allHandedOver(h, site.client);
  });

  it('starts no workflow without a recipient', async () => {
    const site = await scene.newSite();
    await removeNoticesUrl(h.db, site.accountId);
    await scene.fail(site);
    await until('it is failing', async () => (await owedNotices(h.db, site.client)).health === 'failing');
    await allHandedOver(h, site.client);
    const hour = new Date().toISOString().slice(0, 13);
    for (const to of ['account', 'platform']) {
      const handle = h.temporal.workflow.getHandle(h.ids.notice(site.client, 'endpoint.failing', hour, to));
      await assert.rejects(handle.describe(), { name: 'WorkflowNotFoundError' });
    }
  });
});
