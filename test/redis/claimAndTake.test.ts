import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { ArrivedEvent, Claim } from '../../src/redis/owed/claim.js';
import type { Take } from '../../src/redis/owed/take.js';
import { deleteClient, setClient } from '../../src/redis/records/clients.js';
import { pauseEndpoint } from '../../src/redis/records/endpoint.js';
import { resetRegistration } from '../../src/redis/records/registrations.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  newDeliveryClient,
  whatIsOwed,
} from './deliveryClient.js';

interface Drawn {
  asset: string;
  segment: string;
  priority: 'live' | 'backfill';
}

const drawn = fc.record<Drawn>({
  asset: fc.constantFrom('a', 'b', 'c', 'd'),
  segment: fc.constantFrom('x', 'y', 'z'),
  priority: fc.constantFrom('live', 'live', 'live', 'backfill'),
});
const groups = fc.array(fc.array(drawn, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 3 });

describe('claiming and taking a group of one client in one script', () => {
  after(closeDeliveryClients);

  it('gives the same answers and the same state as claiming each and then taking each', async () => {
    const limits = [
      'none',
      'two in flight',
      'a slow rate',
      'paused',
      'suspended',
      'without a URL',
      'deleted',
    ];
    await fc.assert(
      fc.asyncProperty(groups, fc.constantFrom(...limits), async (drawnGroups, limit) => {
        const [together, apart] = await Promise.all([limited(limit), limited(limit)]);
        for (const group of drawnGroups) {
          const { claims, wakeCatchUp } = await together.claimAndTake(eventsOf(together, group));
          const one = await claimThenTake(apart, eventsOf(apart, group));
          assert.deepEqual(claims.map(comparable), one.claims.map(comparable));
          assert.equal(wakeCatchUp, one.wakeCatchUp);
          assert.deepEqual(await left(together), await left(apart));
        }
        for (const { db } of [together, apart]) db.redis.disconnect();
      }),
      { numRuns: 40 },
    );
  });

  it('gives the same answers without a take, and leaves all claimed assets waiting', async () => {
    await fc.assert(
      fc.asyncProperty(groups, async (drawnGroups) => {
        const client = await newDeliveryClient();
        for (const group of drawnGroups)
          for (const event of eventsOf(client, group)) await client.claim(event);
        const { flight, waiting } = await whatIsOwed(client);
        assert.deepEqual(flight, {});
        const assets = new Set(drawnGroups.flatMap((group) => group.map(({ asset }) => asset)));
        assert.deepEqual(Object.keys(waiting).sort(), [...assets].sort());
        client.db.redis.disconnect();
      }),
      { numRuns: 10 },
    );
  });

  it('sends only the newer of two events of one asset', async () => {
    const client = await newDeliveryClient();
    const events = ['x', 'y'].map((segment, i) =>
      client.event({ platformId: 'a', segments: [segment], eventId: `e${i}` }),
    );
    const { claims } = await client.claimAndTake(events);
    assert.deepEqual(
      claims.map((claim) => claim.kind === 'claimed' && claim.take?.kind),
      ['gone', 'taken'],
    );
  });

  it('sends a repeated event once', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'a' });
    const { claims } = await client.claimAndTake([event, event]);
    assert.deepEqual(claims.map(comparable), [
      ['claimed', 1, false, undefined, 'taken', undefined],
      ['claimed', 1, true, undefined, 'refused', 'leased'],
    ]);
  });

  it('writes no waiting entry for an asset that is sent immediately', async () => {
    const client = await newDeliveryClient();
    const keys = client.db.client(client.clientToken);
    await client.claimAndTake([client.event({ platformId: 'a' })]);
    assert.equal(await client.db.redis.exists(keys.owed, keys.owedSince, keys.dueLive, keys.dueBackfill), 0);
  });

  it('leaves no owed asset without a due time, even if taking it fails', async () => {
    const client = await newDeliveryClient();
    const keys = client.db.client(client.clientToken);
    await client.db.redis.set(keys.resends, 'no hash');
    await assert.rejects(client.claimAndTake([client.event({ platformId: 'a' })]), /WRONGTYPE/);
    assert.equal(await client.db.redis.hlen(keys.owed), 1);
    assert.notEqual(await client.db.redis.zscore(keys.dueLive, 'a'), null);
  });

  it('leaves no owed asset without a due time, even if claiming another fails', async () => {
    const client = await newDeliveryClient();
    const keys = client.db.client(client.clientToken);
    const [event, broken] = ['a', 'b'].map((platformId) => client.event({ platformId })) as [
      ArrivedEvent,
      ArrivedEvent,
    ];
    await client.db.redis.set(keys.notification(broken.notificationId), 'no hash');
    await assert.rejects(client.claimAndTake([event, broken]), /WRONGTYPE/);
    assert.notEqual(await client.db.redis.hget(keys.owed, 'a'), null);
    assert.notEqual(await client.db.redis.zscore(keys.dueLive, 'a'), null);
  });

  it('finds the claim made if taking it failed', async () => {
    const client = await newDeliveryClient();
    const { resends } = client.db.client(client.clientToken);
    const event = client.event({ platformId: 'a' });
    await client.db.redis.set(resends, 'no hash');
    await assert.rejects(client.claimAndTake([event]), /WRONGTYPE/);
    await client.db.redis.del(resends);
    const { claims } = await client.claimAndTake([event]);
    assert.deepEqual(claims.map(comparable), [['claimed', 1, true, undefined, 'taken', undefined]]);
  });
});

/** Without times and tokens, which differ by themselves. */
function comparable(claim: Claim): unknown[] {
  switch (claim.kind) {
    case 'claimed':
      return [
        claim.kind,
        claim.claim,
        claim.again,
        claim.held,
        claim.take?.kind,
        claim.take?.kind === 'refused' ? claim.take.reason : undefined,
      ];
    case 'none':
      return [claim.kind, claim.reason];
    case 'ended':
      return [claim.kind, claim.state, claim.held];
    default:
      return [claim.kind];
  }
}

/** Returns the place of each asset and its event, because the ids of two clients differ. */
async function left(client: DeliveryClient) {
  const { waiting, flight } = await whatIsOwed(client);
  const keys = client.db.client(client.clientToken);
  const [live, backfill] = await Promise.all([
    client.db.redis.zrange(keys.dueLive, 0, '-1'),
    client.db.redis.zrange(keys.dueBackfill, 0, '-1'),
  ]);
  const eventOf = async (id: string) => await client.db.redis.hget(keys.notification(id), 'event');
  const events = async (ids: Record<string, string>) =>
    Object.fromEntries(
      await Promise.all(Object.entries(ids).map(async ([asset, id]) => [asset, await eventOf(id)] as const)),
    );
  return {
    waiting: await events(waiting),
    flight: await events(Object.fromEntries(Object.entries(flight).map(([asset, { id }]) => [asset, id]))),
    lanes: Object.fromEntries(Object.entries(flight).map(([asset, { lane }]) => [asset, lane])),
    live: live.sort(),
    backfill: backfill.sort(),
  };
}

async function limited(limit: string): Promise<DeliveryClient> {
  const client = await newDeliveryClient();
  if (limit === 'two in flight') await setClient(client.db, client.clientToken, { maxInFlight: 2 });
  // So slow that no second place comes up while the test runs.
  if (limit === 'a slow rate') await setClient(client.db, client.clientToken, { maxPerSecond: 0.001 });
  if (limit === 'paused') await pauseEndpoint(client.db, client.clientToken);
  if (limit === 'suspended')
    await client.attempt(await client.owe('z', { eventId: 'z' }), { ok: false, status: 410 });
  if (limit === 'without a URL') await resetRegistration(client.db, client.clientToken);
  if (limit === 'deleted') await deleteClient(client.db, client.clientToken);
  return client;
}

function eventsOf(client: DeliveryClient, group: Drawn[]): ArrivedEvent[] {
  return group.map(({ asset, segment, priority }) =>
    client.event({ platformId: asset, segments: [segment], eventId: `${asset}-${segment}`, priority }),
  );
}

async function claimThenTake(client: DeliveryClient, events: ArrivedEvent[]) {
  const claims: Claim[] = [];
  for (const event of events) claims.push(await client.claim(event));
  let wakeCatchUp = false;
  for (const [i, { platformId, notificationId }] of events.entries()) {
    const claim = claims[i];
    if (claim?.kind !== 'claimed') continue;
    const wanted = [{ platformId, notificationId, claim: claim.claim, mode: 'first' as const }];
    const turned = await client.turn({ wanted });
    claim.take = turned.takes[0] as Take;
    wakeCatchUp ||= turned.wakeCatchUp;
  }
  return { claims, wakeCatchUp };
}
