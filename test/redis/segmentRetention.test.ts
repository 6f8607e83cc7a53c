import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startRedis } from '../../local/redis.js';
import { assetSlot } from '../../src/ids.js';
import { createLogger } from '../../src/log.js';
import { checkExpiry, closeDb, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { servers } from '../servers.js';
import { closeDeliveryClients, type DeliveryClient, newDeliveryClient } from './deliveryClient.js';

const asset = 'a';
const slot = assetSlot(asset);
const keepSeconds = 44 * 86_400;

describe('The known segments of an asset, with SEGMENT_RETENTION_DAYS', () => {
  let client: DeliveryClient;
  beforeEach(async () => {
    client = await newDeliveryClient();
    client.db.keepSegmentsSeconds = keepSeconds;
  });
  after(closeDeliveryClients);

  const known = () => client.db.client(client.clientToken).known(slot.bucket);
  const claim = async (segments: string[], given: { notify?: boolean } = {}) => {
    const { kind, ...more } = await client.claim(client.event({ platformId: asset, segments, ...given }));
    return { kind, ...more };
  };
  /** The seconds left for the asset's entry; -1: without end, -2: there is none. */
  const secondsLeft = async () => {
    const [left] = (await client.db.redis.call('HTTL', known(), 'FIELDS', '1', slot.field)) as number[];
    return left;
  };
  const age = () => client.db.redis.call('HEXPIRE', known(), '100', 'FIELDS', '1', slot.field);

  for (const [what, segments, notify] of [
    ['brings a new one', ['new'], true],
    ['brings nothing new', ['x'], true],
    ['is silent', ['silent'], false],
  ] as const) {
    it(`are kept for that time from the last event, also if it ${what}`, async () => {
      await claim(['x']);
      await age();
      await claim([...segments], { notify });
      assert.equal(await secondsLeft(), keepSeconds);
    });
  }

  it('are forgotten then, and notified once more when they come again', async () => {
    await claim(['x']);
    assert.equal((await claim(['x'])).kind, 'none');
    await client.db.redis.call('HPEXPIRE', known(), '1', 'FIELDS', '1', slot.field);
    while ((await client.db.redis.hexists(known(), slot.field)) === 1);
    const again = await claim(['x']);
    assert.deepEqual([again.kind, 'claim' in again && again.claim], ['claimed', 1]);
  });

  it('make no second notification then for a repeated event whose record is still kept', async () => {
    const event = client.event({ platformId: asset });
    await client.claim(event);
    const owed = { platformId: asset, notificationId: event.notificationId };
    await client.attempt(owed, { ok: true });
    // As after a redelivery, which keeps the record for longer than the entry.
    await client.db.redis.hdel(known(), slot.field);
    assert.deepEqual(await client.claim(event), { kind: 'ended', state: 'delivered', held: undefined });
    assert.deepEqual(await client.take(), []);
  });

  it('need a server that knows HEXPIRE: the start says so on another', async () => {
    await checkExpiry(client.db);
    const dir = await mkdtemp(join(tmpdir(), 'asset-update-old-'));
    const args = ['--rename-command', 'HEXPIRE', ''];
    const old = await startRedis({ dir, binary: servers().redisServerBinary, args });
    const log = createLogger('silent', 'test');
    const db = openDb({ url: old.url, prefix: '', log, keepSegmentsSeconds: keepSeconds });
    try {
      await waitForRedis(db, 5000);
      await assert.rejects(checkExpiry(db), /^Error: SEGMENT_RETENTION_DAYS needs HEXPIRE/);
    } finally {
      closeDb(db);
      await old.stop();
      await rm(dir, { recursive: true, force: true });
    }
  });
});
