import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Arrived } from '../../src/store/claim.js';
import { claimAndTakeEvents } from '../../src/store/claimAndTake.js';
import { deleteClient, setClient } from '../../src/store/clients.js';
import { pauseEndpoint } from '../../src/store/endpoint.js';
import type { EnrichmentEvent, Look } from '../../src/store/look.js';
import { resetRegistration } from '../../src/store/registrations.js';
import type { Take, Taken } from '../../src/store/take.js';
import { closeDeliveryClients, type DeliveryClient, leaseMs, newDeliveryClient } from './deliveryClient.js';

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

const bounds = { leaseMs, maxInFlight: 16 };

describe('claiming and taking a group of one client in one script', () => {
  after(closeDeliveryClients);

  it('answers what claiming all and then taking each answers', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(drawn, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 3 }),
        fc.constantFrom('none', 'two in flight', 'a slow rate', 'paused'),
        async (groups, limit) => {
          const [together, apart] = await Promise.all([limited(limit), limited(limit)]);
          for (const group of groups) {
            assert.deepEqual(
              (await claimAndTake(together, eventsOf(together, group))).map(comparable),
              (await claimThenTake(apart, eventsOf(apart, group))).map(comparable),
            );
          }
        },
      ),
      { numRuns: 15 },
    );
  });

  it('that have not been looked at answers what looking at each, claiming it, and then taking all answers', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(drawn, { minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 3 }),
        fc.constantFrom('none', 'two in flight', 'paused', 'suspended', 'without a URL', 'deleted'),
        async (groups, limit) => {
          const [together, apart] = await Promise.all([limited(limit), limited(limit)]);
          for (const group of groups) {
            const arrived = eventsOf(together, group).map((event) => ({
              ...event,
              acceptedAt: together.now(),
            }));
            const answers = await claimAndTakeEvents(together.db, together.clientToken, arrived, bounds);
            assert.deepEqual(
              answers.map((answer) => [answer.look, comparable(answer)]),
              await lookClaimThenTake(apart, eventsOf(apart, group)),
            );
          }
        },
      ),
      { numRuns: 25 },
    );
  });

  it('sends only the newer of two events of one asset', async () => {
    const client = await newDeliveryClient();
    const [older, newer] = await claimAndTake(
      client,
      ['x', 'y'].map((segment, i) =>
        client.event({ platformId: 'a', segments: [segment], eventId: `e${i}` }),
      ),
    );
    assert.equal(older?.take?.kind, 'gone');
    assert.equal(newer?.take?.kind, 'taken');
  });

  it('asked again as its answer was lost takes over what it had claimed and taken, and no lease from before', async () => {
    const client = await newDeliveryClient();
    await setClient(client.db, client.clientToken, { maxInFlight: 2 });
    const [before, first, second] = ['a', 'b', 'c'].map((platformId) => ({
      ...client.event({ platformId }),
      acceptedAt: client.now(),
    })) as Arrived[] as [Arrived, Arrived, Arrived];
    const ask = (events: Arrived[], lostSince?: number) =>
      claimAndTakeEvents(client.db, client.clientToken, events, bounds, lostSince);
    await ask([before]);
    client.pass(1000);
    const lostSince = client.now();
    const lost = await ask([first, second]);
    assert.deepEqual(
      lost.map(({ take }) => take?.kind),
      ['taken', 'refused'],
    );
    client.pass(1000);
    const again = await ask([first, second, before], lostSince);
    assert.deepEqual(again.map(comparable), [
      ['mine', 1, 'taken', undefined],
      ['mine', 1, 'refused', 'full'],
      ['mine', 1, 'refused', 'leased'],
    ]);
    assert.deepEqual(
      again.map(({ look }) => look),
      [0, 1, 2].map(() => ({ kind: 'new', claim: 0 })),
    );
    const [old, taken] = [lost[0]?.take, again[0]?.take] as [Taken, Taken];
    const owed = { platformId: 'b', notificationId: first.notificationId };
    assert.equal((await client.settle(owed, old, { ok: false, status: 500 })).failures, 0, 'it is nobody’s');
    assert.equal((await client.settle(owed, taken, { ok: true })).outcome, 'delivered');
    assert.equal((await ask([first])).at(0)?.look?.kind, 'claimed', 'not taken over without need');
  });

  it('leaves nothing owed without a time at which it is due, even where taking it breaks off', async () => {
    const client = await newDeliveryClient();
    const keys = client.db.client(client.clientToken);
    await client.db.redis.set(keys.client, 'no hash');
    await assert.rejects(claimAndTake(client, [client.event({ platformId: 'a' })]), /WRONGTYPE/);
    assert.equal(await client.db.redis.hlen(keys.owed), 1);
    assert.notEqual(await client.db.redis.zscore(keys.dueLive, 'a'), null);
  });

  it('nor where claiming another breaks off', async () => {
    const client = await newDeliveryClient();
    const keys = client.db.client(client.clientToken);
    const [event, broken] = ['a', 'b'].map((platformId) => client.event({ platformId })) as [
      EnrichmentEvent,
      EnrichmentEvent,
    ];
    await client.db.redis.set(`${keys.base}notification:${broken.notificationId}`, 'no hash');
    await assert.rejects(claimAndTake(client, [event, broken]), /WRONGTYPE/);
    assert.equal(await client.db.redis.hlen(keys.owed), 1);
    assert.notEqual(await client.db.redis.zscore(keys.dueLive, 'a'), null);
  });

  it('makes the claim again where it broke off', async () => {
    const client = await newDeliveryClient();
    const { inFlight } = client.db.client(client.clientToken);
    const event = client.event({ platformId: 'a' });
    await client.db.redis.set(inFlight, 'no sorted set');
    await assert.rejects(claimAndTake(client, [event]), /WRONGTYPE/);
    await client.db.redis.del(inFlight);
    const [again] = await claimAndTake(client, [event]);
    assert.deepEqual([again?.claim.kind, again?.take?.kind], ['claimed', 'taken']);
  });
});

type Answer = { claim: { kind: string; claim?: number }; take?: Take };

/** Without times and tokens, which differ by themselves. */
function comparable({ claim, take }: Answer) {
  const { kind, claim: number } = claim;
  return [kind, number, take?.kind, take?.kind === 'refused' ? take.reason : undefined];
}

async function limited(limit: string): Promise<DeliveryClient> {
  const client = await newDeliveryClient();
  if (limit === 'two in flight') await setClient(client.db, client.clientToken, { maxInFlight: 2 });
  // So slow that no second place comes up while the test runs.
  if (limit === 'a slow rate') await setClient(client.db, client.clientToken, { maxPerSecond: 0.001 });
  if (limit === 'paused') await pauseEndpoint(client.db, client.clientToken);
  if (limit === 'suspended') await client.attempt(await client.owe('z'), { ok: false, status: 410 });
  if (limit === 'without a URL') await resetRegistration(client.db, client.clientToken);
  if (limit === 'deleted') await deleteClient(client.db, client.clientToken);
  return client;
}

function eventsOf(client: DeliveryClient, group: Drawn[]): EnrichmentEvent[] {
  return group.map(({ asset, segment, priority }) =>
    client.event({ platformId: asset, segments: [segment], eventId: `${asset}-${segment}`, priority }),
  );
}

async function claimAndTake(client: DeliveryClient, events: EnrichmentEvent[]): Promise<Answer[]> {
  const accepted = events.map((event) => ({ ...event, lookedUpClaim: 0, acceptedAt: client.now() }));
  return await claimAndTakeEvents(client.db, client.clientToken, accepted, bounds);
}

async function lookClaimThenTake(client: DeliveryClient, events: EnrichmentEvent[]) {
  const looks: Look[] = [];
  const answers: Answer[] = [];
  for (const event of events) {
    const look = await client.look(event);
    looks.push(look);
    answers.push({
      claim: look.kind === 'new' ? await client.claim(event, look.claim) : { kind: 'not_new' },
    });
  }
  await takeOwn(client, events, answers);
  return answers.map((answer, i) => [looks[i], comparable(answer)]);
}

async function claimThenTake(client: DeliveryClient, events: EnrichmentEvent[]): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (const event of events) answers.push({ claim: await client.claim(event) });
  await takeOwn(client, events, answers);
  return answers;
}

async function takeOwn(client: DeliveryClient, events: EnrichmentEvent[], answers: Answer[]): Promise<void> {
  for (const [i, event] of events.entries()) {
    const answer = answers[i] as Answer;
    const own = answer.claim.kind === 'claimed' || answer.claim.kind === 'mine';
    if (own && event.priority === 'live') answer.take = await client.take(event);
  }
}
