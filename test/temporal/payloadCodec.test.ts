import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError, readConfig } from '../../src/config.js';
import { loadDataConverter } from '../../src/temporal/payloadCodecs.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from '../delivery/harness.js';
import { decodedPayloads } from '../e2e/decodedPayloads.js';
import { walk } from '../faults/walk.js';

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
    const { events, found } = await walk(h);
    assert.deepEqual({ events, found }, { events: 2, found: [] });
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
