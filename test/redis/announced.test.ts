import assert from 'node:assert/strict';
import { readConfig } from '../../src/config.js';
import { ClaimQueue } from '../../src/delivery/claimQueue.js';
import { deliveryOf } from '../../src/delivery/settings.js';
import { createLogger } from '../../src/log.js';
import { announceClaims } from '../../src/redis/owed/owedClients.js';
import { closeDeliveryClients, newDeliveryClient } from './deliveryClient.js';

describe('Clients with announced claims', () => {
  after(closeDeliveryClients);

  it('are remembered for a while, without made-up tokens', async () => {
    const client = await newDeliveryClient();
    const { db, clientToken } = client;
    const log = createLogger('silent', 'test');
    const claims = new ClaimQueue({
      db,
      log,
      settings: deliveryOf(readConfig({})),
      catchUps: { signal() {} },
      metrics: { ended() {} },
    });
    const made = { clientToken: 'MADE-UP', platformId: 'a' };
    assert.equal((await claims.claim(client.event(made))).kind, 'unknown_client');
    assert.equal((await claims.claim(client.event({ platformId: 'a' }))).kind, 'claimed');
    assert.equal(announceClaims(db, [clientToken]), undefined, 'written before');
    assert.notEqual(announceClaims(db, ['MADE-UP']), undefined, 'not remembered');
  });
});
