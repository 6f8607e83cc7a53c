import assert from 'node:assert/strict';
import { forgetWakeUp } from '../../src/redis/owed/owedClients.js';
import { planCatchUp } from '../../src/redis/owed/plan.js';
import { pauseEndpoint, setHeld, unpauseEndpoint } from '../../src/redis/records/endpoint.js';
import { resetRegistration } from '../../src/redis/records/registrations.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  day,
  hour,
  minute,
  newDeliveryClient,
  second,
} from './deliveryClient.js';

/** Steps that bring a client into a state in which nothing may be sent to it. */
const states: Record<string, (client: DeliveryClient) => Promise<unknown>> = {
  'a paused client': ({ db, clientToken }) => pauseEndpoint(db, clientToken),
  'a client of a disabled account': ({ db, clientToken }) => setHeld(db, clientToken, true),
  'a suspended client': async (client) =>
    client.attempt(await client.owe('gone'), { ok: false, status: 410 }),
  'a client that is failing, before its probe': async (client) => {
    for (let i = 0; i < 5; i++) await client.attempt(await client.owe(`sick-${i}`), { ok: false });
  },
  'a client that is failing, while it is probed': async (client) => {
    for (let i = 0; i < 5; i++) await client.attempt(await client.owe(`sick-${i}`), { ok: false });
    client.pass(11 * second);
    const probe = await client.take(await client.owe('probed'), 'probe');
    assert.equal(probe.kind, 'taken');
  },
  'a client that asked for a pause': async (client) =>
    client.attempt(await client.owe('slow'), { ok: false, status: 503, retryAfterMs: hour }),
};

/** As catch-up does when it is woken: it looks, and sleeps until there is something to do. */
async function look(client: DeliveryClient, retentionMs: number): Promise<void> {
  const { items } = await planCatchUp(client.db, client.clientToken, { limit: 10, retentionMs });
  assert.deepEqual(items, []);
}

/** How often events ask for catch-up, which comes each time. */
async function wakeUps(client: DeliveryClient, retentionMs: number): Promise<number> {
  let count = 0;
  for (let i = 0; i < 20; i++) {
    const event = client.event({ platformId: `vid-${i % 10}`, priority: i % 3 === 0 ? 'backfill' : 'live' });
    const { claims, wakeCatchUp } = await client.claimAndTake([event]);
    const [claim] = claims;
    assert.ok(claim?.kind === 'claimed' && claim.take?.kind === 'refused', JSON.stringify(claim));
    if (wakeCatchUp) {
      count++;
      await look(client, retentionMs);
    }
    client.pass(100);
  }
  return count;
}

describe('waking catch-up', () => {
  after(closeDeliveryClients);

  for (const [name, reach] of Object.entries(states)) {
    it(`is asked for once by many events for ${name}`, async () => {
      for (const retentionMs of [30 * day, 365 * day]) {
        const client = await newDeliveryClient();
        await reach(client);
        assert.equal(await wakeUps(client, retentionMs), 1);
        assert.equal(await wakeUps(client, retentionMs), 0);
      }
    });
  }

  it('is asked for once by many events claimed together', async () => {
    const client = await newDeliveryClient();
    await pauseEndpoint(client.db, client.clientToken);
    const events = Array.from({ length: 10 }, (_, i) => client.event({ platformId: `vid-${i}` }));
    assert.equal((await client.claimAndTake(events)).wakeCatchUp, true);
    assert.equal((await client.claimAndTake(events)).wakeCatchUp, false);
  });

  it('is not asked for a client without a URL, whose events make no notification', async () => {
    const client = await newDeliveryClient();
    await resetRegistration(client.db, client.clientToken);
    const { claims, wakeCatchUp } = await client.claimAndTake([client.event({ platformId: 'vid' })]);
    assert.deepEqual([claims, wakeCatchUp], [[{ kind: 'none', reason: 'not_registered' }], false]);
  });

  it('is asked for once by retries for a client that lost its URL', async () => {
    const client = await newDeliveryClient();
    const owed = await Promise.all(Array.from({ length: 5 }, (_, i) => client.owe(`vid-${i}`)));
    await resetRegistration(client.db, client.clientToken);
    const woken: boolean[] = [];
    for (const one of owed) {
      const { takes, wakeCatchUp } = await client.turn({ wanted: [{ ...one, mode: 'retry' }] });
      assert.deepEqual(takes, [{ kind: 'refused', reason: 'no_registration', inMs: -1 }]);
      woken.push(wakeCatchUp);
    }
    assert.deepEqual(woken, [true, false, false, false, false]);
  });

  it('is not asked for while an attempt may be made, or other attempts hold the places', async () => {
    const client = await newDeliveryClient();
    for (let i = 0; i < 20; i++) {
      const { wakeCatchUp } = await client.claimAndTake([client.event({ platformId: `vid-${i}` })]);
      assert.equal(wakeCatchUp, false);
    }
  });

  it('is asked for again by the next event after a failure', async () => {
    const client = await newDeliveryClient();
    await pauseEndpoint(client.db, client.clientToken);
    const wakes = async () => (await client.claimAndTake([client.event({ platformId: 'vid' })])).wakeCatchUp;
    assert.equal(await wakes(), true);
    await forgetWakeUp(client.db, client.clientToken);
    assert.equal(await wakes(), true);
    assert.equal(await wakes(), false);
  });

  it('is asked for again when its planned time is long past', async () => {
    const client = await newDeliveryClient();
    await states['a client that asked for a pause']?.(client);
    await client.claimAndTake([client.event({ platformId: 'vid' })]);
    await look(client, 30 * day);
    client.pass(hour + minute);
    await pauseEndpoint(client.db, client.clientToken);
    assert.equal((await client.claimAndTake([client.event({ platformId: 'vid' })])).wakeCatchUp, true);
  });

  it('is asked for at the probe’s time once the pause is over', async () => {
    const client = await newDeliveryClient({ failingAfter: 1 });
    await pauseEndpoint(client.db, client.clientToken);
    await client.claimAndTake([client.event({ platformId: 'vid' })]);
    await look(client, 30 * day);
    await unpauseEndpoint(client.db, client.clientToken);
    await client.attempt(await client.owe('sick'), { ok: false });
    assert.equal((await client.claimAndTake([client.event({ platformId: 'other' })])).wakeCatchUp, true);
  });
});
