import assert from 'node:assert/strict';
import { account } from '../../bench/accounting.js';

describe('the benchmark accounts for every notification', () => {
  const events = {
    notificationIds: ['a', 'b', 'c', 'd', 'e'],
    at: [0, 1, 2, 3, 4],
    assets: ['/x 1', '/x 2', '/x 3', '/x 4', '/x 1'],
  };

  it('by its id: arrived, repeated, missing, superseded, in no answer', () => {
    const arrivals = {
      ids: ['e', 'b', 'b', 'z'],
      at: [10, 11, 12, 13],
      assets: ['/x 1', '/x 2', '/x 2', '/x 9'],
    };
    assert.deepEqual(account(events, arrivals), {
      deliveries: [
        { notificationId: 'b', acceptedAt: 1, arrivedAt: 11 },
        { notificationId: 'e', acceptedAt: 4, arrivedAt: 10 },
      ],
      missing: 2,
      superseded: 1,
      duplicates: 1,
      unannounced: 1,
    });
  });

  it('and does not count an older notification of the same asset as a newer one', () => {
    const arrivals = { ids: ['a'], at: [2], assets: ['/x 1'] };
    assert.equal(account(events, arrivals).missing, 4);
  });
});
