import assert from 'node:assert/strict';
import type { Take, TakeMode, Taken } from '../../src/redis/owed/take.js';
import { setClient } from '../../src/redis/records/clients.js';
import { pauseEndpoint, resumeEndpoint, setHeld, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { resetRegistration } from '../../src/redis/records/registrations.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  leaseMs,
  minute,
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

    it('are 16 if none are set for the client', async () => {
      const client = await newDeliveryClient();
      assert.equal(taken(await takeAll(client, await oweMany(client, 30))).length, 16);
    });

    it('hold for redeliveries too', async () => {
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

    it('hold within one turn that wants more', async () => {
      const client = await newDeliveryClient();
      const owed = await oweMany(client, 10);
      const { takes } = await client.turn(
        { wanted: owed.map((one) => ({ ...one, mode: 'first' as const })) },
        { maxInFlight: 3 },
      );
      assert.deepEqual(
        takes.map((take) => take.kind),
        owed.map((_, i) => (i < 3 ? 'taken' : 'refused')),
      );
      assertRefused(takes, 'full');
    });

    it('free a place in the same turn that settles its attempt', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 2 });
      const owed = await oweMany(client, 5);
      const held = taken(await takeAll(client, owed.slice(0, 2)));
      const { takes } = await client.turn({
        verdicts: held.map((one, i) => client.verdict(owed[i] as Owed, one, { ok: i === 0 })),
        wanted: owed.slice(2).map((one) => ({ ...one, mode: 'first' as const })),
      });
      assert.equal(taken(takes).length, 2);
      assertRefused(takes, 'full');
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
    it('lets through no more than its share and a twentieth of a second, for any number of callers', async () => {
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
    const slowly = { drainPerSecond: 0.01 };
    const drainAll = async (client: DeliveryClient, owed: Owed[]) =>
      (await client.turn({ wanted: owed.map((one) => ({ ...one, mode: 'drain' as const })) }, slowly)).takes;

    /** Each ends what held up deliveries, and is told by `recovered_at`. */
    const recoveries: Record<string, (client: DeliveryClient) => Promise<unknown>> = {
      'a pause': async ({ db, clientToken }) => {
        await pauseEndpoint(db, clientToken);
        await unpauseEndpoint(db, clientToken);
      },
      'a disabled account': async ({ db, clientToken }) => {
        await setHeld(db, clientToken, true);
        await setHeld(db, clientToken, false);
      },
      'an outage': async (client) => {
        const probe = await client.owe('probe');
        await client.attempt(await client.owe('sick'), { ok: false, status: 410 });
        await resumeEndpoint(client.db, client.clientToken);
        const { change } = await client.attempt(probe, { ok: true }, 'probe');
        assert.equal(change?.to, 'active');
      },
      'a time without a URL': async (client) => {
        await resetRegistration(client.db, client.clientToken);
        await client.register();
      },
    };

    for (const [name, recover] of Object.entries(recoveries)) {
      it(`bounds only assets that wait since before the end of ${name}`, async () => {
        const client = await newDeliveryClient();
        await setClient(client.db, client.clientToken, { maxInFlight: 1000 });
        client.pass(minute);
        const before = await oweMany(client, 10);
        client.pass(second);
        await recover(client);
        client.pass(second);
        const since = await Promise.all(Array.from({ length: 10 }, (_, i) => client.owe(`since-${i}`)));
        const drained = await drainAll(client, before);
        assert.equal(taken(drained).length, 1);
        assertRefused(drained, 'rate');
        assert.equal(taken(await drainAll(client, since)).length, 10, 'what came since');
        const left = before.filter((_, i) => drained[i]?.kind !== 'taken');
        assert.equal(taken(await takeAll(client, left, 'first')).length, 9, 'a first attempt');
      });
    }

    it('does not bound a client that was never held up', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 1000 });
      client.pass(second);
      assert.equal(taken(await drainAll(client, await oweMany(client, 30))).length, 30);
    });

    it('also bounds a newer notification of an asset that waits since before', async () => {
      const client = await newDeliveryClient();
      await oweMany(client, 2);
      client.pass(second);
      await recoveries['a pause']?.(client);
      client.pass(second);
      const takes = await drainAll(client, await oweMany(client, 2));
      assert.equal(taken(takes).length, 1);
      assertRefused(takes, 'rate');
    });

    it('lets through its number each second', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 1000 });
      let waiting = await oweMany(client, 60);
      client.pass(second);
      await recoveries['a pause']?.(client);
      const drainPerSecond = 20;
      const startedAt = client.now();
      let through = 0;
      for (let step = 0; step < 10; step++) {
        const wanted = waiting.map((one) => ({ ...one, mode: 'drain' as const }));
        const { takes } = await client.turn({ wanted }, { drainPerSecond });
        through += taken(takes).length;
        waiting = waiting.filter((_, i) => takes[i]?.kind !== 'taken');
        // Unused places are kept for a tenth of a second.
        const allowed = ((client.now() - startedAt) / second + 0.1) * drainPerSecond + 1;
        assert.ok(through <= allowed, `${through} of ${allowed}`);
        client.pass(100);
      }
      assert.ok(through >= 18, `and lets its share through: ${through}`);
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

    it('may have any place when its turn has come', async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 4 });
      const owed = await oweMany(client, 6, 'backfill');
      assert.equal(taken(await takeAll(client, owed)).length, 3);
      const takes = await takeAll(
        client,
        owed.slice(3).map((one) => ({ ...one, mayUseAll: true })),
      );
      assert.equal(taken(takes).length, 1);
      assertRefused(takes, 'full');
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
