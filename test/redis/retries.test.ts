import assert from 'node:assert/strict';
import { isRetriedShortly, shortRetries } from '../../src/delivery/outcome.js';
import { closeDeliveryClients, day, newDeliveryClient } from './deliveryClient.js';

describe('a notification whose short retries are over', () => {
  after(closeDeliveryClients);

  it('is reported as such to every caller who asks before its time', async () => {
    const client = await newDeliveryClient({ failingAfter: 100 });
    const owed = await client.owe('asset');
    for (let failed = 0; failed <= shortRetries; failed++) {
      const before = await client.take(owed, 'retry');
      if (before.kind === 'refused') {
        assert.equal(before.failures, failed);
        assert.equal(isRetriedShortly({ state: 'waiting', ...before, failures: failed }), true);
        client.pass(before.inMs);
      } else if (before.kind === 'taken') {
        await client.settle(owed, before, { ok: false });
        continue;
      }
      await client.attempt(owed, { ok: false }, 'retry');
    }
    const after = await client.take(owed, 'retry');
    assert.ok(after.kind === 'refused' && after.inMs < day);
    assert.deepEqual([after.reason, after.failures, after.last?.status], ['not_due', shortRetries + 1, 500]);
    assert.equal(isRetriedShortly({ state: 'waiting', ...after, failures: after.failures ?? 0 }), false);
  });
});
