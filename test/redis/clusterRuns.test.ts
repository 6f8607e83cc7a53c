import assert from 'node:assert/strict';
import type { RedisCluster } from '../../local/redisCluster.js';
import { toldAccount } from '../../src/redis/connection/keys.js';
import { slotOf } from '../../src/redis/connection/slots.js';
import { untilRedisAnswers } from '../../src/redis/connection/untilRedisAnswers.js';
import { readUpdates } from '../../src/redis/notifications/updates.js';
import { getNoticesUrl, removeNoticesUrl, setNoticesUrl } from '../../src/redis/records/notices.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { signingSecrets } from '../../src/redis/records/signingSecrets.js';
import { announceRuns } from '../../src/redis/runs/announce.js';
import { applyToClient, changeRun } from '../../src/redis/runs/change.js';
import { dropRun } from '../../src/redis/runs/drop.js';
import { holdRun } from '../../src/redis/runs/hold.js';
import { getRun, sumRun } from '../../src/redis/runs/runs.js';
import { keysMatching } from '../keysMatching.js';
import { moveSlot } from '../moveSlot.js';
import { startOwnCluster } from '../ownCluster.js';
import { closeDeliveryClients, newDeliveryClient } from './deliveryClient.js';

describe('A Redis Cluster', () => {
  let cluster: RedisCluster;

  before(async function () {
    this.timeout(60_000);
    cluster = await startOwnCluster();
  });
  after(async () => {
    closeDeliveryClients();
    await cluster?.stop();
  });

  it('counts, cancels and drops an analysis run over clients of every node', async () => {
    const { db, ...first } = await newDeliveryClient({}, cluster.url);
    const runs = Array.from({ length: 12 }, (_, i) => `R${i}`);
    const owners = new Set<string>();
    for (const runId of runs) owners.add((await cluster.ownerOf(slotOf(db.global.run(runId)))).id);
    assert.equal(owners.size, 3, 'runs of every node');
    for (const runId of runs) {
      await announceRuns(db, first.clientToken, [{ runId }]);
      await first.owe(`vid-${runId}`, { runId });
      assert.equal(announceRuns(db, first.clientToken, [{ runId }]), undefined, 'announced before');
      assert.equal((await changeRun(db, runId, 'cancelled')).outcome, 'changed');
      const run = await getRun(db, runId);
      assert.ok(run);
      await holdRun(db, first.clientToken, run);
      assert.equal((await applyToClient(db, first.clientToken, runId, () => undefined)).cancelled, 1);
      const { counts, clients } = await sumRun(db, runId);
      assert.deepEqual([clients, counts.accepted, counts.cancelled, counts.owed], [1, 1, 1, 0]);
      await dropRun(db, runId);
    }
    assert.deepEqual(await keysMatching(db, `${db.prefix}run*`), []);
  });

  it('keeps the notices URL of an account, also while its slot is moved key by key', async () => {
    const { db } = await newDeliveryClient({}, cluster.url);
    const box = createSecretBox(undefined);
    const slot = slotOf(db.client(toldAccount('acc_1')).base);
    const from = await cluster.ownerOf(slot);
    const to = cluster.nodes.find(({ id }) => id !== from.id);
    assert.ok(to);
    await setNoticesUrl(db, box, 'acc_1', 'https://ops.example.com/');
    let change: Promise<unknown> | undefined;
    await moveSlot(slot, from, to, {
      keysAtOnce: 1,
      onKeys: async () => {
        change ??= untilRedisAnswers(() => setNoticesUrl(db, box, 'acc_1', 'https://ops.example.com/other'));
      },
    });
    await change;
    assert.equal((await getNoticesUrl(db, 'acc_1'))?.url, 'https://ops.example.com/other');
    assert.equal((await signingSecrets(db, box, toldAccount('acc_1'))).length, 1);
    await moveSlot(slot, to, from);
    assert.equal(await removeNoticesUrl(db, 'acc_1'), 'https://ops.example.com/other');
    assert.equal(await getNoticesUrl(db, 'acc_1'), undefined);
  });

  it('reads the feed of updates of a client', async () => {
    const client = await newDeliveryClient({}, cluster.url);
    const owed = await client.owe('vid');
    const page = await readUpdates(client.db, client.clientToken, { limit: 10 });
    assert.deepEqual(
      page?.updates.map(({ notificationId }) => notificationId),
      [owed.notificationId],
    );
  });
});
