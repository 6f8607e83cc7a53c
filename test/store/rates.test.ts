import assert from 'node:assert/strict';
import { setClient } from '../../src/store/clients.js';
import type { Take, TakeMode, Taken } from '../../src/store/take.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  leaseMs,
  newDeliveryClient,
  type Owed,
  second,
} from './deliveryClient.js';

async function oweMany(
  client: DeliveryClient,
  many: number,
  priority: 'live' | 'backfill' = 'live',
): Promise<Owed[]> {
  return await Promise.all(
    Array.from({ length: many }, (_, i) => client.owe(`${priority}-${i}`, { priority })),
  );
}

async function takeAll(client: DeliveryClient, owed: Owed[], mode: TakeMode = 'first'): Promise<Take[]> {
  return await Promise.all(owed.map((one) => client.take(one, mode)));
}

const taken = (takes: Take[]): Taken[] => takes.filter((take) => take.kind === 'taken');

function assertRefused(takes: Take[], reason: string): void {
  for (const take of takes) {
    if (take.kind === 'taken') continue;
    assert.ok(take.kind === 'refused' && take.reason === reason && take.inMs > 0, JSON.stringify(take));
  }
}

describe("a client's bounds", () => {
  after(closeDeliveryClients);

  describe('at most N attempts in flight', () => {
    it('hold over any number of concurrent takers', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 3 });
      const takes = await takeAll(client, await oweMany(client, 30));
      assert.equal(taken(takes).length, 3);
      assertRefused(takes, 'full');
    });

    it('are 16 where none are set for the client', async () => {
      const client = await newDeliveryClient();
      assert.equal(taken(await takeAll(client, await oweMany(client, 30))).length, 16);
    });

    it('hold for attempts sent again too', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 2 });
      const owed = await oweMany(client, 6);
      const takes = [...(await takeAll(client, owed, 'redeliver')), ...(await takeAll(client, owed))];
      assert.equal(taken(takes).length, 2);
    });

    it('give a place back with each verdict, and once only', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 1 });
      const [first, second, third] = (await oweMany(client, 3)) as [Owed, Owed, Owed];
      const attempt = await client.take(first);
      assert.ok(attempt.kind === 'taken');
      await client.settle(first, attempt, { ok: true });
      assert.equal((await client.take(second)).kind, 'taken');
      await client.settle(first, attempt, { ok: true });
      assertRefused([await client.take(third)], 'full');
      assert.equal((await client.take(third)).kind, 'refused');
    });

    it('give the place of an attempt that was never answered back when its lease ends', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 2 });
      const owed = await oweMany(client, 4);
      await takeAll(client, owed);
      client.pass(leaseMs);
      assert.equal(taken(await takeAll(client, owed)).length, 2);
    });

    it('never let one asset have two', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const takes = await takeAll(
        client,
        Array.from({ length: 20 }, () => owed),
      );
      assert.equal(taken(takes).length, 1);
      assertRefused(takes, 'leased');
    });
  });

  describe('a rate per second', () => {
    it('lets no more through than its share and a twentieth of a second, however many ask', async () => {
      const client = await newDeliveryClient();
      const perSecond = 20;
      await setClient(client.db, client.clientToken, { maxInFlight: 1000, maxPerSecond: perSecond });
      let waiting = await oweMany(client, 60);
      const startedAt = client.now();
      let through = 0;
      for (let step = 0; step < 8; step++) {
        const takes = await takeAll(client, waiting);
        assertRefused(takes, 'rate');
        through += taken(takes).length;
        waiting = waiting.filter((_, i) => takes[i]?.kind !== 'taken');
        const allowed = ((client.now() - startedAt) / second + 0.05) * perSecond + 1;
        assert.ok(through <= allowed, `${through} of ${allowed}`);
        client.pass(100);
      }
      assert.ok(through >= 8, 'and lets its share through');
    });

    it('says when the next place is, and there is one then', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxPerSecond: 0.01 });
      const takes = await takeAll(client, await oweMany(client, 4));
      assert.equal(taken(takes).length, 1);
      const next = await client.owe('next');
      const refused = await client.take(next);
      assert.ok(refused.kind === 'refused' && refused.reason === 'rate');
      client.pass(refused.inMs);
      assert.equal((await client.take(next)).kind, 'taken');
    });

    it('is not spent by an attempt that is refused for something else', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 1, maxPerSecond: 0.01 });
      const [first, second] = (await oweMany(client, 2)) as [Owed, Owed];
      assert.equal((await client.take(first)).kind, 'taken');
      const { rate_at } = await client.endpoint();
      assertRefused([await client.take(second)], 'full');
      assert.equal((await client.endpoint()).rate_at, rate_at);
    });
  });

  describe('the rate of a drain', () => {
    it('bounds a drain and not fresh events', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 1000 });
      const owed = (await oweMany(client, 30)).map((one) => ({ ...one, drainPerSecond: 0.01 }));
      const takes = await takeAll(client, owed, 'drain');
      assert.equal(taken(takes).length, 1);
      assertRefused(takes, 'rate');
      const left = owed.filter((_, i) => takes[i]?.kind !== 'taken');
      assert.equal(taken(await takeAll(client, left, 'first')).length, 29);
    });
  });

  describe('backfill', () => {
    it('leaves a quarter of the places to live events', async () => {
      for (const [maxInFlight, backfill] of [
        [16, 12],
        [5, 4],
        [2, 1],
        [1, 1],
      ] as const) {
        const client = await newDeliveryClient();
        await setClient(client.db, client.clientToken, { maxInFlight });
        const filled = await takeAll(client, await oweMany(client, 20, 'backfill'));
        assert.equal(taken(filled).length, backfill, `of ${maxInFlight}`);
        const live = await takeAll(client, await oweMany(client, 20));
        assert.equal(taken(live).length, maxInFlight - backfill, `of ${maxInFlight}`);
      }
    });

    it('is live from the moment a live event of its asset is owed', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 2 });
      await client.owe('vid', { priority: 'backfill' });
      await takeAll(client, [await client.owe('other', { priority: 'backfill' })]);
      assert.equal((await client.take(await client.owe('vid', { priority: 'live' }))).kind, 'taken');
    });

    it('does not make a live asset wait as backfill', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 2 });
      await client.owe('vid', { priority: 'live' });
      await takeAll(client, [await client.owe('other', { priority: 'backfill' })]);
      assert.equal((await client.take(await client.owe('vid', { priority: 'backfill' }))).kind, 'taken');
    });
  });
});
