import assert from 'node:assert/strict';
import { type Customer, type Harness, newCustomer, sharedHarness } from '../service.js';

interface Page {
  updates: { platform_id: string; notification_id: string; updated_at: string }[];
  has_more: boolean;
  next_cursor: string;
  code?: string;
}

describe('GET /updates', () => {
  let h: Harness;
  let customer: Customer;

  before(async () => {
    h = await sharedHarness();
  });
  beforeEach(async () => {
    customer = await newCustomer(h, ['push_notifications', 'enrichments']);
  });

  async function get(query: Record<string, string> = {}) {
    const { status, body } = await customer.call('GET', `/updates?${new URLSearchParams(query)}`);
    return { status, body: body as unknown as Page };
  }

  async function publish(assets: readonly string[]) {
    const events = assets.map((platform_id) => ({
      client_token: customer.client_token,
      platform_id,
      segments: [`s-${Math.random()}`],
    }));
    const { status, body } = await customer.call('POST', '/enrichments', { events });
    assert.equal(status, 202);
    return body.results as Record<string, string>[];
  }

  it('lists events of a client without a URL page by page, then an empty page with the same place', async () => {
    const empty = (await get()).body;
    assert.deepEqual(empty.updates, []);
    assert.equal(empty.next_cursor, 'u.0-0');
    const results = await publish(['a', 'b', 'c']);
    for (const one of results) assert.deepEqual([one.notification, one.reason], ['none', 'not_registered']);
    const first = await get({ cursor: empty.next_cursor, limit: '2' });
    assert.deepEqual(
      first.body.updates.map(({ platform_id }) => platform_id),
      ['a', 'b'],
    );
    for (const { notification_id, updated_at } of first.body.updates) {
      assert.match(notification_id, /^msg_/);
      assert.ok(Math.abs(Date.parse(updated_at) - Date.now()) < 30_000);
    }
    const second = await get({ cursor: first.body.next_cursor });
    assert.deepEqual(
      second.body.updates.map(({ platform_id }) => platform_id),
      ['c'],
    );
    assert.deepEqual([first.body.has_more, second.body.has_more], [true, false]);
    const last = await get({ cursor: second.body.next_cursor });
    assert.deepEqual(last.body.updates, []);
    assert.equal(last.body.next_cursor, second.body.next_cursor);
  });

  it('names the notification if the client has a URL', async () => {
    await customer.register('http://127.0.0.1:9/none');
    const [published] = await publish(['a']);
    assert.equal(published?.notification, 'queued');
    const { updates } = (await get()).body;
    assert.deepEqual(
      updates.map(({ notification_id }) => notification_id),
      [published?.notification_id],
    );
  });

  it('answers 400 for an invalid cursor, and 410 cursor_expired for a place that is no longer kept', async () => {
    for (const cursor of ['', 'x', 'u.', 'u.1', 'u.01-0', 'u.1-0-0', 'u.0-1']) {
      const { status, body } = await get({ cursor });
      assert.deepEqual([status, body.code], [400, 'invalid_request'], cursor);
    }
    await publish(['a']);
    for (const cursor of ['u.1-0', 'u.9999999999999999-0']) {
      const { status, body } = await get({ cursor });
      assert.deepEqual([status, body.code], [410, 'cursor_expired'], cursor);
    }
    assert.equal((await get({ limit: '201' })).status, 400);
  });
});
