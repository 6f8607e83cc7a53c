import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError, readConfig } from '../../src/config.js';
import { notificationId } from '../../src/ids.js';
import { createPace } from '../../src/operator/pace.js';
import type { ClaimedEvent } from '../../src/redis/owed/claim.js';
import { clientOf } from '../../src/temporal/connection.js';
import { enrichmentRuns, eventsOf } from '../../src/temporal/enrichmentRuns.js';
import { loadDataConverter } from '../../src/temporal/payloadCodecs.js';
import { reclaimEvents } from '../../src/upkeep/reclaim.js';
import { type Reconciliation, reconcile } from '../../src/upkeep/reconcile.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from '../delivery/harness.js';
import { decodedPayloads } from '../e2e/decodedPayloads.js';
import { openCli } from '../operator/cli.js';

const codec = { TEMPORAL_PAYLOAD_CODEC: join(import.meta.dirname, 'encryptingCodec.mjs') };

describe('Payloads that a codec encrypts (TEMPORAL_PAYLOAD_CODEC)', () => {
  let h: Harness;
  let receiver: Receiver;

  before(async () => {
    h = await startHarness({ ...codec, RETRY_SCHEDULE_SECONDS: '0.2', PROBE_SCHEDULE_SECONDS: '0.2' });
    receiver = await startReceiver();
  });
  after(async () => {
    await h.close();
    await receiver.close();
  });

  const walk = (temporal = h.temporal): Promise<Reconciliation> =>
    reconcile({
      ...{ db: h.db, temporal, taskQueue: h.taskQueue, settings: h.deps.settings },
      ...{ since: 0, pace: createPace(1000) },
    });

  /** A workflow that closed before its event was claimed. */
  async function terminated(platformId: string): Promise<{ client: string; event: ClaimedEvent }> {
    const client = await h.newClient(receiver.url);
    const named = { clientToken: client, platformId, eventId: 'an-1', segments: ['iab:17'] };
    const event: ClaimedEvent = {
      ...{ ...named, notificationId: notificationId(named), priority: 'live' },
      ...{ acceptedAt: Date.now(), claim: 1 },
    };
    const handle = await h.temporal.workflow.start('enrichment', {
      workflowId: h.ids.enrichment(client, event.notificationId),
      taskQueue: h.taskQueue,
      args: [{ events: [event] }],
    });
    await handle.terminate();
    await until('it is listed', async () => {
      for await (const page of enrichmentRuns(h.temporal, h.taskQueue, "ExecutionStatus = 'Terminated'")) {
        if (page.some(({ workflowId }) => workflowId === handle.workflowId)) return true;
      }
      return false;
    });
    return { client, event };
  }

  it('reconcile and reclaim read the events of a workflow that closed before its claim', async () => {
    const { client, event } = await terminated('lost');
    const found = await walk();
    assert.deepEqual(found.unaccounted, []);
    assert.deepEqual([found.counts.in_progress, found.looked.histories], [1, 1]);

    const { events, failed } = await reclaimEvents(h.deps, () => undefined);
    assert.deepEqual({ events, failed }, { events: 1, failed: 0 });
    const record = await h.notification(client, event.notificationId);
    assert.equal(record?.state, 'waiting');
  });

  it('a reader without the codec is told what is missing', async () => {
    await terminated('unread');
    const config = readConfig({});
    const without = clientOf(h.temporal.connection as never, config, await loadDataConverter(config));
    await assert.rejects(walk(without), /cannot be decoded: is TEMPORAL_PAYLOAD_CODEC the service's\?/);
    const cli = await openCli({ KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue });
    try {
      const refused = await cli.run(['reconcile']);
      assert.equal(refused.status, 1);
      assert.match(refused.stderr, /TEMPORAL_PAYLOAD_CODEC/);
      const done = await cli.run(['reconcile'], { env: codec });
      assert.equal(done.status, 0, done.stderr);
    } finally {
      cli.close();
    }
    await reclaimEvents(h.deps, () => undefined);
  });

  it('are delivered, retried and caught up; a history shows no asset and no segment, a search attribute still does', async () => {
    await h.startWorker();
    const client = await h.newClient(receiver.url);
    const good = await h.publish({
      client,
      asset: 'asset-good',
      segments: ['segment-good'],
      eventId: 'an-2',
    });
    assert.equal((await (await h.workflowOf(client, good.id)).result()).state, 'delivered');

    receiver.answer = () => 500;
    const bad = await h.publish({ client, asset: 'asset-bad', segments: ['segment-bad'] });
    const result = await (await h.workflowOf(client, bad.id)).result();
    assert.deepEqual([result.state, result.failed_attempts], ['waiting', 4]);
    const catchUp = h.temporal.workflow.getHandle(h.ids.catchUp(client));
    await until('catch-up says why', async () => {
      const described = await catchUp.describe().catch(() => undefined);
      return String(described?.memo?.what).includes(client);
    });
    receiver.answer = () => 200;
    await until('caught up', async () => (await h.notification(client, bad.id))?.state === 'delivered');

    const handles = [await h.workflowOf(client, good.id), await h.workflowOf(client, bad.id), catchUp];
    for (const handle of handles) {
      const history = await handle.fetchHistory();
      const texts = decodedPayloads(withoutPlain(history.events));
      assert.ok(
        texts.some((text) => text.includes('binary/encrypted')),
        handle.workflowId,
      );
      for (const secret of ['asset-good', 'asset-bad', 'segment-good', 'segment-bad']) {
        assert.ok(!texts.some((text) => text.includes(secret)), `${secret} is in ${handle.workflowId}`);
      }
      const started = history.events?.[0]?.workflowExecutionStartedEventAttributes;
      const findable = decodedPayloads(started?.searchAttributes).join();
      if (handle !== catchUp) assert.match(findable, /asset-(good|bad)/);
    }
    const events: string[] = [];
    for await (const page of enrichmentRuns(h.temporal, h.taskQueue)) {
      for (const run of page)
        events.push(...((await eventsOf(h.temporal, run)) ?? []).map(({ platformId }) => platformId));
    }
    assert.ok(events.includes('asset-good') && events.includes('asset-bad'), events.join());
    assert.deepEqual((await walk()).unaccounted, []);
  });

  describe('a wrong setting is refused at the start', () => {
    let dir: string;
    before(async () => {
      dir = await mkdtemp(join(tmpdir(), 'asset-update-test-'));
      await writeFile(join(dir, 'none.mjs'), 'export default [];');
      await writeFile(join(dir, 'half.mjs'), 'export default { encode() {} };');
    });
    after(() => rm(dir, { recursive: true }));

    for (const name of ['missing.mjs', 'none.mjs', 'half.mjs']) {
      it(name, async () => {
        const config = readConfig({ TEMPORAL_PAYLOAD_CODEC: join(dir, name) });
        await assert.rejects(
          loadDataConverter(config),
          (err) => err instanceof ConfigError && err.message.includes('TEMPORAL_PAYLOAD_CODEC'),
        );
      });
    }
  });
});

/** The parts that a codec sees: no search attribute, no id, and no failure's message. */
function withoutPlain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutPlain);
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  const plain = ['searchAttributes', 'failure', 'lastFailure', 'workflowId'];
  const others = Object.entries(value).filter(([name]) => !plain.includes(name));
  return Object.fromEntries(others.map(([name, inner]) => [name, withoutPlain(inner)]));
}
