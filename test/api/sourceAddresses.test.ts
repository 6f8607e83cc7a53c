import assert from 'node:assert/strict';
import { type Harness, startHarness } from '../service.js';

describe('GET /source_addresses', () => {
  let h: Harness;
  before(async () => {
    h = await startHarness({ SOURCE_ADDRESSES: '198.51.100.7,2001:db8:5::/64' });
  });
  after(() => h.close());

  it('lists them without a token, cacheable, with the time since when the list stands', async () => {
    const answers = [await fetch(`${h.url}/source_addresses`), await fetch(`${h.url}/source_addresses`)];
    const bodies = await Promise.all(
      answers.map(async (one) => (await one.json()) as { changed_at: string }),
    );
    assert.deepEqual(bodies[0], {
      addresses: ['198.51.100.7', '2001:db8:5::/64'],
      changed_at: bodies[1]?.changed_at,
    });
    assert.equal(answers[0]?.headers.get('cache-control'), 'public, max-age=3600');
    await h.db.redis.hset(h.db.global.sourceAddresses, { list: '198.51.100.8', changed_at: 1 });
    const { changed_at } = (await (await fetch(`${h.url}/source_addresses`)).json()) as {
      changed_at: string;
    };
    assert.ok(Date.parse(changed_at) >= Date.parse(bodies[0]?.changed_at ?? ''), changed_at);
  });
});
