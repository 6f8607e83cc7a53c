import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startRedis } from '../../local/redis.js';
import { assetSlot, segmentFingerprints } from '../../src/ids.js';
import { createLogger } from '../../src/log.js';
import { checkExpiry, closeDb, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { servers } from '../servers.js';
import { closeDeliveryClients, type DeliveryClient, newDeliveryClient } from './deliveryClient.js';

const asset = 'a';
const slot = assetSlot(asset);
/** The fingerprints in the asset's value, and those in its set. */
const packed = 256;
const beside = 99_744;

const names = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `s${from + i}`);

describe('The known segments of an asset with many', () => {
  let client: DeliveryClient;
  beforeEach(async () => {
    client = await newDeliveryClient();
  });
  after(closeDeliveryClients);

  async function know(segments: readonly string[]): Promise<void> {
    for (let at = 0; at < segments.length; at += 200) {
      const some = segments.slice(at, at + 200);
      await client.claim(client.event({ platformId: asset, segments: some, notify: false }));
    }
  }
  const decided = async (segments: readonly string[], eventId?: string) => {
    const event = client.event({ platformId: asset, segments, ...(eventId && { eventId }) });
    const claim = await client.claim(event);
    return claim.kind === 'none' ? claim.reason : claim.kind;
  };
  const keys = () => client.db.client(client.clientToken);
  const sizeBeside = () => client.db.redis.scard(keys().knownBeside(slot));

  it('are all known at 5,000, in any combination, and one more is new', async () => {
    await know(names(0, 5000));
    for (let at = 0; at < 5000; at += 200)
      assert.equal(await decided(names(at, at + 200)), 'no_new_segments');
    assert.equal(await decided(['s0', 's255', 's256', 's4999', 'another']), 'claimed');
    assert.equal(await decided(['another']), 'no_new_segments');
  });

  it('are forgotten at random beyond 100,000: new ones are notified, and forgotten ones once more', async () => {
    await know(names(0, packed));
    const all = names(packed, packed + beside);
    for (let at = 0; at < all.length; at += 5000) {
      const list = Array.from({ length: 5000 }, (_, i) => all[at + i]).filter((s) => s !== undefined);
      const bytes = segmentFingerprints(list);
      const members = list.map((_, i) => bytes.subarray(i * 6, i * 6 + 6));
      await client.db.redis.sadd(keys().knownBeside(slot), ...members);
    }
    assert.equal(await sizeBeside(), beside);
    assert.equal(await decided(names(200_000, 200_200), 'over'), 'claimed');
    assert.equal(await sizeBeside(), beside, 'no more than that');
    assert.equal(await decided(names(200_000, 200_200)), 'no_new_segments', 'the newest are known');
    const forgotten = await unknownOf(all);
    assert.equal(forgotten.length, 200);
    assert.equal(await decided(forgotten.slice(0, 1)), 'claimed');
  });

  async function unknownOf(segments: readonly string[]): Promise<string[]> {
    const bytes = segmentFingerprints(segments);
    const missing: string[] = [];
    for (let at = 0; at < segments.length; at += 5000) {
      const some = segments.slice(at, at + 5000);
      const members = some.map((_, i) => bytes.subarray((at + i) * 6, (at + i) * 6 + 6));
      const found = await client.db.redis.smismember(keys().knownBeside(slot), ...members);
      missing.push(...some.filter((_, i) => found[i] === 0));
    }
    return missing;
  }
});

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
