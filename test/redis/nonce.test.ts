import assert from 'node:assert/strict';
import { cancelNotification, getNotification } from '../../src/redis/notifications/notifications.js';
import type { Claim } from '../../src/redis/owed/claim.js';
import type { Take, TakeMode } from '../../src/redis/owed/take.js';
import { setClient } from '../../src/redis/records/clients.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  leaseMs,
  newDeliveryClient,
  newNonce,
  type Owed,
  second,
  whatIsOwed,
} from './deliveryClient.js';

const modes: TakeMode[] = ['first', 'retry', 'drain', 'redeliver'];

function tokenOf(take: Take | undefined): string {
  assert.ok(take?.kind === 'taken', JSON.stringify(take));
  return take.token;
}

function takeOf(claim: Claim | undefined): Take | undefined {
  return claim?.kind === 'claimed' ? claim.take : undefined;
}

function assertLeased(take: Take | undefined): void {
  assert.ok(take?.kind === 'refused' && take.reason === 'leased', JSON.stringify(take));
}

/** Where its answer is lost, a caller repeats a call by the same nonce. */
describe('a call repeated after a lost answer', () => {
  after(closeDeliveryClients);

  for (const mode of modes) {
    it(`finds the lease of its own ${mode}, in one place, and takes no other`, async () => {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: 2 });
      const owed = await client.owe('vid');
      const nonce = newNonce();
      const token = tokenOf(await client.take(owed, mode, { nonce }));
      for (let i = 0; i < 3; i++) assert.equal(tokenOf(await client.take(owed, mode, { nonce })), token);
      assert.equal((await getEndpoint(client.db, client.clientToken)).inFlight, 1);
      if (mode !== 'redeliver') assertLeased(await client.take(owed, mode, { nonce: newNonce() }));
    });
  }

  it('finds its own probe of a failing endpoint', async () => {
    const client = await newDeliveryClient({ failingAfter: 1, probeScheduleMs: [second] });
    await client.attempt(await client.owe('sick'), { ok: false });
    client.pass(2 * second);
    const owed = await client.owe('vid');
    const nonce = newNonce();
    const token = tokenOf(await client.take(owed, 'probe', { nonce }));
    assert.equal(tokenOf(await client.take(owed, 'probe', { nonce })), token);
    const other = await client.take(await client.owe('another'), 'probe');
    assert.ok(other.kind === 'refused' && other.reason === 'failing', JSON.stringify(other));
  });

  it('gets with a claim the assets that it had claimed and taken, and no earlier lease', async () => {
    const client = await newDeliveryClient();
    await setClient(client.db, client.clientToken, { maxInFlight: 2 });
    const [before, first, other] = ['a', 'b', 'c'].map((platformId) => client.event({ platformId }));
    assert.ok(before && first && other);
    await client.claimAndTake([before]);
    const nonce = newNonce();
    const lost = await client.claimAndTake([first, other], { nonce });
    const { claims } = await client.claimAndTake([first, other, before], { nonce });
    assert.deepEqual(
      claims.map((claim) => claim.kind === 'claimed' && claim.again),
      [true, true, true],
    );
    const [again, full, leased] = claims.map(takeOf);
    assert.equal(tokenOf(again), tokenOf(takeOf(lost.claims[0])));
    assert.ok(full?.kind === 'refused' && full.reason === 'full', JSON.stringify(full));
    assertLeased(leased);
  });

  it('is refused with another nonce: a claim takes over no lease', async () => {
    const client = await newDeliveryClient();
    const event = client.event({ platformId: 'vid' });
    await client.claimAndTake([event]);
    const before = await whatIsOwed(client);
    assertLeased(takeOf((await client.claimAndTake([event])).claims[0]));
    assert.deepEqual(await whatIsOwed(client), before);
  });

  it('gets a whole lease again, because the attempt begins only now', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    const nonce = newNonce();
    await client.take(owed, 'first', { nonce });
    client.pass(leaseMs - second);
    const token = tokenOf(await client.take(owed, 'first', { nonce }));
    client.pass(leaseMs - second);
    assertLeased(await client.take(owed));
    client.pass(second);
    assert.notEqual(tokenOf(await client.take(owed)), token);
  });

  it('finds nothing of its own once a newer notification waits, or it was cancelled', async () => {
    const end: Record<string, (client: DeliveryClient, owed: Owed) => Promise<unknown>> = {
      superseded: (client) => client.owe('vid'),
      cancelled: (client, { notificationId }) =>
        cancelNotification(client.db, client.clientToken, notificationId),
    };
    for (const [state, ends] of Object.entries(end)) {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const nonce = newNonce();
      await client.take(owed, 'first', { nonce });
      await ends(client, owed);
      assert.deepEqual(await client.take(owed, 'first', { nonce }), { kind: 'gone', state });
    }
  });

  it('counts its verdicts once, and gets the assets that it took with them', async () => {
    const client = await newDeliveryClient();
    const [failed, delivered, next] = [await client.owe('a'), await client.owe('b'), await client.owe('c')];
    const verdicts = [];
    for (const owed of [failed, delivered]) {
      const take = await client.take(owed);
      assert.ok(take.kind === 'taken');
      verdicts.push(client.verdict(owed, take, { ok: owed === delivered }));
    }
    // In this order the failure is the last that counts.
    const turn = { verdicts: verdicts.reverse(), wanted: [{ ...next, mode: 'first' as const }] };
    const nonce = newNonce();
    const lost = await client.turn(turn, { nonce });
    const again = await client.turn(turn, { nonce });
    assert.deepEqual(
      again.settled.map(({ outcome, failures }) => [outcome, failures]),
      [
        ['delivered', 0],
        ['retry', 1],
      ],
    );
    assert.equal(tokenOf(again.takes[0]), tokenOf(lost.takes[0]));
    const record = await getNotification(client.db, client.clientToken, failed.notificationId);
    assert.equal(record?.attempts.length, 1);
  });

  it('gives a lease to only one of two requests for the same asset in it', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    for (const mode of ['first', 'redeliver'] as const) {
      const { takes } = await client.turn({
        wanted: [
          { ...owed, mode },
          { ...owed, mode },
        ],
      });
      tokenOf(takes[0]);
      assertLeased(takes[1]);
    }
  });

  it('keeps a first attempt and a redelivery of one notification apart', async () => {
    const client = await newDeliveryClient();
    const owed = await client.owe('vid');
    const { takes } = await client.turn({
      wanted: [
        { ...owed, mode: 'first' },
        { ...owed, mode: 'redeliver' },
      ],
    });
    for (const take of takes) tokenOf(take);
    assert.equal((await getEndpoint(client.db, client.clientToken)).inFlight, 2);
  });
});
