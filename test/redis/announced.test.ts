import assert from 'node:assert/strict';
import { deliveryOf, readConfig } from '../../src/config.js';
import { Accepting } from '../../src/delivery/claim.js';
import { createLogger } from '../../src/log.js';
import { announceClaims, forgetOwedClient } from '../../src/redis/owed/owedClients.js';
import { isIndexed } from '../../src/redis/owed/owedIndex.js';
import { closeDeliveryClients, newDeliveryClient } from './deliveryClient.js';

describe('Clients with announced claims', () => {
  after(closeDeliveryClients);

  it('are remembered for a while, without made-up tokens', async () => {
    const client = await newDeliveryClient();
    const { db, clientToken } = client;
    const log = createLogger('silent', 'test');
    const claims = new Accepting({
      db,
      log,
      settings: deliveryOf(readConfig({})),
      outbox: { reserve: () => undefined },
      catchUps: { signal() {} },
      metrics: { ended() {} },
    });
    const made = { clientToken: 'MADE-UP', platformId: 'a' };
    assert.equal((await claims.accept(client.event(made))).kind, 'unknown_client');
    assert.equal((await claims.accept(client.event({ platformId: 'a' }))).kind, 'claimed');
    assert.equal(announceClaims(db, [clientToken]), undefined, 'written before');
    assert.notEqual(announceClaims(db, ['MADE-UP']), undefined, 'not remembered');
  });

  describe('on machines with wrong clocks', () => {
    const real = { date: Date.now, performance: performance.now };
    const minutes = (n: number) => n * 60_000;
    afterEach(() => {
      Date.now = real.date;
      performance.now = real.performance;
    });

    it('stay in the index for ten minutes, also if the sweep’s clock is far ahead', async () => {
      let skippedMs = 0;
      const db = { ...(await newDeliveryClient()).db, clockOffsetMs: () => skippedMs };
      Date.now = () => real.date() - minutes(11);
      await announceClaims(db, ['SITE-1', 'SITE-2']);
      Date.now = () => real.date() + minutes(11);
      await forgetOwedClient(db, 'SITE-1');
      assert.equal(await isIndexed(db, 'SITE-1'), true);
      skippedMs = minutes(10) + 1000;
      await forgetOwedClient(db, 'SITE-1');
      assert.deepEqual([await isIndexed(db, 'SITE-1'), await isIndexed(db, 'SITE-2')], [false, true]);
    });

    it('are announced again after five minutes, also if the clock was set back', async () => {
      const { db } = await newDeliveryClient();
      await announceClaims(db, ['SITE-1']);
      Date.now = () => real.date() - minutes(60);
      performance.now = () => real.performance.call(performance) + minutes(4);
      assert.equal(announceClaims(db, ['SITE-1']), undefined);
      performance.now = () => real.performance.call(performance) + minutes(6);
      assert.notEqual(announceClaims(db, ['SITE-1']), undefined);
    });
  });
});
