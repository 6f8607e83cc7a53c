import assert from 'node:assert/strict';
import { listCalls } from '../../src/redis/records/audit.js';
import { deleteClient } from '../../src/redis/records/deletion.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { startReceiver, within } from '../receiver.js';
import { forSuite, forTest } from '../servers.js';
import { type Json, newCustomer, useShared } from '../service.js';

/** Known segments may also be forgotten by age: then the record of an earlier notification answers a repeat. */
const settings = { SEGMENT_RETENTION_DAYS: '60' };

describe('a video and its notification', () => {
  const h = useShared(settings);
  const receiver = forTest(() => startReceiver());
  const customer = forTest(() => newCustomer(h));
  const platform = forSuite(() => newCustomer(h, ['enrichments']));

  beforeEach(async () => {
    await customer.register(receiver.url);
  });

  const audited = async (what: string, by = customer) =>
    (await listCalls(h.db, [by.account_id])).filter(
      (one) => one.clientToken === customer.client_token && one.what === what,
    );
  const publish = async (
    asset: string,
    event: Partial<{ eventId: string; segments: string[] }> & Json = {},
  ) => h.publish({ client: customer.client_token, asset, ...event });

  describe('PUT /push_notifications/quiet_period', () => {
    const setQuiet = (seconds: unknown) =>
      customer.call('PUT', '/push_notifications/quiet_period', { seconds });

    it('has events wait for the end of the period that the first began, and says so', async () => {
      assert.deepEqual((await setQuiet(2)).body, { seconds: 2 });
      const { began, asset, id } = await within(2_000, async () => {
        const began = Date.now();
        const asset = `vid-${began}`;
        await publish(asset);
        const { id } = await publish(asset);
        const { waiting_reason: why, next_attempt_at: at } = await customer.read(`/notifications/${id}`);
        assert.equal(why, 'quiet');
        assert.ok(Date.parse(String(at)) <= Date.now() + 2000);
        return { began, asset, id };
      });
      await h.delivered(customer.client_token, id);
      assert.ok(Date.now() - began >= 2000);
      assert.deepEqual(receiver.idsOf(asset), [id]);
      assert.equal((await customer.read('/push_notifications')).quiet_seconds, 2);
    });

    it('answers 400 for anything but 0 to 3,600, and says what it must be', async () => {
      for (const [wrong, says] of [
        [-1, 'must be at least 0'],
        [3601, 'must be at most 3600'],
        [1.5, 'must be a whole number'],
        ['60', 'must be a number'],
        [undefined, 'is missing'],
      ]) {
        const { status, body } = await setQuiet(wrong);
        assert.deepEqual([status, body.msg], [400, `seconds: ${says}`]);
      }
    });
  });

  it('the quiet period of a site that is deleted meanwhile is 503, and 404 when it is repeated', async () => {
    const { durably } = h.db;
    h.db.durably = (write) => {
      h.db.durably = durably;
      return durably((own) => deleteClient(h.db, customer.client_token).then(() => write(own)));
    };
    const set = () => customer.call('PUT', '/push_notifications/quiet_period', { seconds: 1 });
    assert.deepEqual([(await set()).status, (await set()).status], [503, 404]);
  });

  describe('DELETE /assets/{platform_id}', () => {
    const forget = async (asset: string) =>
      platform.call('DELETE', `/assets/${asset}?client_token=${customer.client_token}`);

    it('forgets what was known, so that an event of before is new again, under another id, and is in the audit', async () => {
      const event = { eventId: 'an-1', segments: ['a', 'b'] };
      const first = await publish('vid-1', event);
      await h.delivered(customer.client_token, first.id);
      const { body } = await forget('vid-1');
      assert.deepEqual(body, { platform_id: 'vid-1', known_segments: 2 });
      assert.equal((await customer.read('/assets/vid-1')).code, 'unknown_asset');
      const again = await publish('vid-1', event);
      await h.delivered(customer.client_token, again.id);
      assert.deepEqual(receiver.idsOf('vid-1'), [first.id, again.id]);
      assert.notEqual(again.id, first.id);
      assert.deepEqual([again.kind, await publish('vid-1', event)], ['queued', { ...again, kind: 'ended' }]);
      const [call] = await audited('asset forget', platform);
      assert.deepEqual([call?.accountId, call?.about], [platform.account_id, { platform_id: 'vid-1' }]);
    });

    it('cancels what is owed, and says so and why; a repeat finds nothing', async () => {
      await setPaused(h.db, customer.client_token, true);
      const { id } = await publish('vid-1');
      assert.deepEqual((await forget('vid-1')).body, {
        platform_id: 'vid-1',
        known_segments: 1,
        cancelled: id,
      });
      const { state, reason } = await customer.read(`/notifications/${id}`);
      assert.deepEqual([state, reason], ['cancelled', 'asset_forgotten']);
      assert.deepEqual((await forget('vid-1')).body, { platform_id: 'vid-1', known_segments: 0 });
    });

    it('takes the asset in the query too, where no gateway decodes it', async () => {
      for (const asset of ['x/../y', 'y', '..']) await publish(asset);
      const query = new URLSearchParams({ client_token: customer.client_token, platform_id: 'x/../y' });
      const { body } = await platform.call('DELETE', `/assets?${query}`);
      assert.deepEqual(body, { platform_id: 'x/../y', known_segments: 1 });
      query.set('platform_id', '..');
      assert.equal((await platform.call('DELETE', `/assets?${query}`)).body.known_segments, 1);
      assert.equal((await customer.read('/assets/y')).known_segments, 1);
    });

    it('names an asset that can be none: the one that was meant would stay', async () => {
      for (const asset of ['vid-1%0A', 'v'.repeat(257)]) {
        const { status, body } = await forget(asset);
        assert.deepEqual([status, /^platform_id: must not /.test(String(body.msg))], [400, true]);
      }
    });
  });
});
