import assert from 'node:assert/strict';
import { assetSlot, segmentFingerprints } from '../../src/ids.js';
import { closeDb } from '../../src/redis/connection/db.js';
import { untilServed } from '../../src/redis/connection/needs.js';
import { forgetAsset } from '../../src/redis/notifications/decisions.js';
import { startOwnRedis } from '../ownRedis.js';
import { connectDb, forTest, opened, settings } from '../servers.js';
import { newDeliveryClient } from './deliveryClient.js';

const asset = 'a';
const slot = assetSlot(asset);
/** The fingerprints in the asset's value, and those in its set. */
const packed = 256;
const beside = 99_744;

const names = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `s${from + i}`);

describe('The known segments of an asset with many', () => {
  const client = forTest(() => newDeliveryClient());

  const claim = async (segments: readonly string[], given: { eventId?: string; notify?: boolean } = {}) => {
    const answer = await client.claim(client.event({ platformId: asset, segments, ...given }));
    return answer.kind === 'none' ? answer.reason : answer.kind;
  };
  /** Calls with the key of the set and 5,000 of the segments' members at a time. */
  async function inSet<T>(segments: readonly string[], call: (key: Buffer, members: Buffer[]) => Promise<T>) {
    const bytes = segmentFingerprints(segments);
    const members = segments.map((_, i) => bytes.subarray(i * 6, i * 6 + 6));
    const key = client.db.client(client.clientToken).knownBeside(slot);
    const answers: T[] = [];
    for (let at = 0; at < members.length; at += 5000)
      answers.push(await call(key, members.slice(at, at + 5000)));
    return answers;
  }

  it('are all known at 5,000, in any combination, and one more is new', async () => {
    for (const [notify, decision] of [
      [false, 'silent'],
      [true, 'no_new_segments'],
    ] as const) {
      for (let at = 0; at < 5000; at += 200)
        assert.equal(await claim(names(at, at + 200), { notify }), decision);
    }
    assert.equal(await claim(['s0', 's255', 's256', 's4999', 'another']), 'claimed');
    assert.equal(await claim(['another']), 'no_new_segments');
  });

  it('are not found across two fingerprints', async () => {
    const across = [Buffer.alloc(30), Buffer.from('-'), segmentFingerprints(['s0']), Buffer.from('-----')];
    const key = client.db.client(client.clientToken).known(slot.bucket);
    await client.db.redis.hset(key, slot.field, Buffer.concat(across));
    assert.equal(await claim(['s0']), 'claimed');
    assert.equal(await claim(['s0']), 'no_new_segments');
  });

  it('are forgotten at random beyond 100,000: new ones are notified, and forgotten ones once more', async () => {
    await claim(names(0, packed), { notify: false });
    const all = names(packed, packed + beside);
    const { redis } = client.db;
    await inSet(all, (key, members) => redis.sadd(key, ...members));
    const size = async () => (await inSet(['x'], (key) => redis.scard(key)))[0];
    assert.equal(await size(), beside);
    assert.equal(await claim(names(200_000, 200_200), { eventId: 'over' }), 'claimed');
    assert.equal(await size(), beside, 'no more than that');
    assert.equal(await claim(names(200_000, 200_200)), 'no_new_segments', 'the newest are known');
    const isKnown = (await inSet(all, (key, members) => redis.smismember(key, ...members))).flat();
    const forgotten = all.filter((_, i) => isKnown[i] === 0);
    assert.equal(forgotten.length, 200);
    assert.equal(await claim(forgotten.slice(0, 1)), 'claimed');
  });

  it('make no second notification for a repeated event of which one was forgotten', async () => {
    for (const from of [0, 200]) await claim(names(from, from + 200), { notify: false });
    const event = client.event({ platformId: asset, segments: ['once'] });
    await client.claim(event);
    await claim(['later']);
    await inSet(event.segments, (key, members) => client.db.redis.srem(key, ...members));
    assert.deepEqual(await client.claim(event), { kind: 'ended', state: 'superseded' });
  });
});

const keepSeconds = 60 * 86_400;

describe('The known segments of an asset, with SEGMENT_RETENTION_DAYS', () => {
  const client = forTest(() => newDeliveryClient());
  beforeEach(() => {
    client.db.settings.keepSegmentsSeconds = keepSeconds;
  });

  const known = () => client.db.client(client.clientToken).known(slot.bucket);
  const claim = (segments: string[], notify = true) =>
    client.claim(client.event({ platformId: asset, segments, notify }));
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
      await claim([...segments], notify);
      assert.equal(await secondsLeft(), keepSeconds);
    });
  }

  it('are kept whole again from the next new one on, once the setting is switched off', async () => {
    const parts = () =>
      Promise.all([
        secondsLeft(),
        client.db.redis.ttl(client.db.client(client.clientToken).knownBeside(slot)),
      ]);
    for (const from of [0, 200]) await claim(names(from, from + 200), false);
    assert.deepEqual(await parts(), [keepSeconds, keepSeconds]);
    await forgetAsset(client.db, client.clientToken, asset);
    assert.equal(await secondsLeft(), keepSeconds, 'what is left of a forgotten asset');
    await claim(names(0, 400), false);
    client.db.settings.keepSegmentsSeconds = 0;
    await claim(['new']);
    assert.deepEqual(await parts(), [-1, -1]);
  });

  it('make no second notification then for a repeated event whose record is still kept', async () => {
    const event = client.event({ platformId: asset });
    await client.claim(event);
    const owed = { platformId: asset, notificationId: event.notificationId };
    await client.attempt(owed, { ok: true });
    // As after a redelivery, which keeps the record for longer than the entry.
    await client.db.redis.hdel(known(), slot.field);
    assert.notEqual(await client.look(owed), 'lost', 'who asks without a claim has lost none');
    assert.deepEqual(await client.claim(event), { kind: 'ended', state: 'delivered' });
    assert.deepEqual(await client.take(), []);
  });

  it('need a server that knows HEXPIRE: the start says so on another', async () => {
    const { signal } = new AbortController();
    await untilServed(client.db, 'here', signal);
    const old = opened(await startOwnRedis(['--rename-command', 'HEXPIRE', '']));
    const db = opened(
      await connectDb(old.url, '', { settings: { ...settings, keepSegmentsSeconds: keepSeconds } }),
      closeDb,
    );
    await assert.rejects(untilServed(db, 'here', signal), /refuses HEXPIRE: .*SEGMENT_RETENTION_DAYS/);
  });
});
