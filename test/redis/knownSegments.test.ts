import assert from 'node:assert/strict';
import { assetSlot, segmentFingerprints } from '../../src/ids.js';
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
