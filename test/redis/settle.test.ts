import assert from 'node:assert/strict';
import fc from 'fast-check';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import type { Taken } from '../../src/redis/owed/take.js';
import {
  getEndpoint,
  pauseEndpoint,
  resumeEndpoint,
  unpauseEndpoint,
} from '../../src/redis/records/endpoint.js';
import { changeRegistration } from '../../src/redis/records/registrations.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  day,
  hour,
  leaseMs,
  minute,
  newDeliveryClient,
  type Owed,
  schedule,
  second,
  whatIsOwed,
} from './deliveryClient.js';

const fail = { ok: false };
const succeed = { ok: true };

async function taken(
  client: DeliveryClient,
  owed: Owed,
  mode?: 'first' | 'probe' | 'redeliver',
): Promise<Taken> {
  const take = await client.take(owed, mode);
  assert.equal(take.kind, 'taken', JSON.stringify(take));
  return take as Taken;
}

/** Fails as many attempts, each of another asset, as make an endpoint `failing`. */
async function makeFailing(client: DeliveryClient): Promise<void> {
  for (let i = 0; i < schedule.failingAfter; i++) {
    const settled = await client.attempt(await client.owe(`sick-${i}`), fail);
    assert.equal(settled.change?.to, i === schedule.failingAfter - 1 ? 'failing' : undefined);
  }
}

describe('settling an attempt', () => {
  after(closeDeliveryClients);

  describe('the schedule of attempts', () => {
    it('follows each failure by the next of its delays, never earlier and at most 10 % later', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.integer({ min: 1, max: 1e8 }), { minLength: 1, maxLength: 6 }),
          async (retryScheduleMs) => {
            const client = await newDeliveryClient({
              retryScheduleMs,
              failingAfter: 1000,
              retryWindowMs: Number.MAX_SAFE_INTEGER,
            });
            const owed = await client.owe('vid');
            for (let failure = 1; failure <= retryScheduleMs.length + 2; failure++) {
              const promised = retryScheduleMs[Math.min(failure, retryScheduleMs.length) - 1] as number;
              const before = client.now();
              const settled = await client.attempt(owed, fail);
              assert.equal(settled.outcome, 'retry');
              assert.equal(settled.failures, failure);
              assert.ok(
                settled.inMs >= promised && settled.inMs <= Math.ceil(promised * 1.1),
                `${settled.inMs}`,
              );
              const due = Number(
                await client.db.redis.zscore(client.db.client(client.clientToken).dueLive, 'vid'),
              );
              assert.ok(due >= before + promised, 'due when promised');
              client.pass(settled.inMs);
            }
            client.db.redis.disconnect();
          },
        ),
        { numRuns: 12 },
      );
    });

    it('is kept by the gate: an attempt before its time is refused', async () => {
      const client = await newDeliveryClient({ retryScheduleMs: [hour] });
      const owed = await client.owe('vid');
      const { inMs } = await client.attempt(owed, fail);
      const early = await client.take(owed, 'retry');
      assert.ok(early.kind === 'refused' && early.reason === 'not_due');
      assert.ok(early.inMs > 0 && early.inMs <= inMs);
      client.pass(inMs);
      assert.equal((await client.take(owed, 'retry')).kind, 'taken');
    });

    it('is not shortened for a newer notification by the late answer to an older one', async () => {
      const client = await newDeliveryClient({ retryScheduleMs: [hour] });
      const older = await client.owe('vid');
      const late = await taken(client, older);
      client.pass(leaseMs);
      const newer = await client.owe('vid');
      const { inMs } = await client.attempt(newer, fail);
      assert.equal((await client.settle(older, late, fail)).outcome, 'gone');
      const early = await client.take(newer, 'retry');
      assert.ok(early.kind === 'refused' && early.reason === 'not_due', JSON.stringify(early));
      assert.ok(early.inMs > inMs - minute);
    });

    it('lets a newer notification follow immediately after the answer to the one it superseded', async () => {
      const client = await newDeliveryClient();
      const older = await client.owe('vid');
      const first = await taken(client, older);
      const newer = await client.owe('vid');
      const leased = await client.take(newer, 'drain');
      assert.ok(leased.kind === 'refused' && leased.reason === 'leased');
      const settled = await client.settle(older, first, fail);
      assert.deepEqual([settled.outcome, settled.next], ['gone', newer.notificationId]);
      assert.equal((await client.take(newer, 'drain')).kind, 'taken');
    });
  });

  describe('the window of 5 days', () => {
    it('ends a notification as failed if its endpoint accepted others', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('refused');
      const since = client.now();
      for (;;) {
        await client.attempt(await client.owe('taken'), succeed);
        const settled = await client.attempt(owed, { ok: false, status: 400 });
        if (settled.outcome === 'failed') break;
        assert.equal(settled.outcome, 'retry');
        client.pass(settled.inMs);
        assert.ok(client.now() - since < schedule.retryWindowMs + minute, 'ended in time');
      }
      assert.ok(
        client.now() - since > schedule.retryWindowMs - 4.4 * hour,
        'and not before the last attempt fits',
      );
      const record = await getNotification(client.db, client.clientToken, owed.notificationId);
      assert.equal(record?.state, 'failed');
      assert.equal(record?.reason, 'window');
    });

    it('ends none while the endpoint accepts no other', async () => {
      const client = await newDeliveryClient({ failingAfter: 1000 });
      const owed = await client.owe('vid');
      client.pass(9 * day);
      assert.equal((await client.attempt(owed, fail)).outcome, 'retry');
    });

    it('stops while the client is paused', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('refused');
      await pauseEndpoint(client.db, client.clientToken);
      client.pass(9 * day);
      await unpauseEndpoint(client.db, client.clientToken);
      await client.attempt(await client.owe('taken'), succeed);
      assert.equal((await client.attempt(owed, fail)).outcome, 'retry');
      client.pass(5 * day);
      await client.attempt(await client.owe('taken'), succeed);
      assert.equal((await client.attempt(owed, fail)).outcome, 'failed');
    });
  });

  describe('Retry-After', () => {
    it('holds the whole endpoint, and a shorter one does not shorten it', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.integer({ min: 1, max: 86_400 }), { minLength: 1, maxLength: 4 }),
          async (seconds) => {
            const client = await newDeliveryClient();
            const asked: [Owed, Taken][] = [];
            for (const i of seconds.keys()) {
              const owed = await client.owe(`vid-${i}`);
              asked.push([owed, await taken(client, owed)]);
            }
            const other = await client.owe('other');
            const before = client.now();
            for (const [i, [owed, attempt]] of asked.entries()) {
              const retryAfterMs = (seconds[i] as number) * second;
              await client.settle(owed, attempt, { ok: false, status: 429, retryAfterMs });
            }
            const longest = Math.max(...seconds) * second;
            const refused = await client.take(other);
            assert.ok(refused.kind === 'refused' && refused.reason === 'not_before', JSON.stringify(refused));
            assert.ok(client.now() + refused.inMs >= before + longest);
            client.pass(refused.inMs);
            assert.equal((await client.take(other)).kind, 'taken');
            client.db.redis.disconnect();
          },
        ),
        { numRuns: 15 },
      );
    });

    it('is not lifted by a success, also not by that of a probe', async () => {
      const client = await newDeliveryClient();
      const slow = await client.owe('slow');
      const attempt = await taken(client, slow);
      await makeFailing(client);
      client.pass(11 * second);
      const probed = await client.owe('probed');
      const probe = await taken(client, probed, 'probe');
      await client.settle(slow, attempt, { ok: false, status: 503, retryAfterMs: hour });
      assert.equal((await client.settle(probed, probe, succeed)).change?.to, 'active');
      const refused = await client.take(slow);
      assert.ok(refused.kind === 'refused' && refused.reason === 'not_before', JSON.stringify(refused));
    });

    it('is lifted by resume and by another URL', async () => {
      for (const lift of [
        resumeEndpoint,
        (...[db, token]: Parameters<typeof resumeEndpoint>) =>
          changeRegistration(db, token, 'https://elsewhere.example/'),
      ]) {
        const client = await newDeliveryClient();
        const owed = await client.owe('vid');
        await client.attempt(owed, { ok: false, status: 503, retryAfterMs: hour });
        await lift(client.db, client.clientToken);
        assert.equal((await client.take(owed)).kind, 'taken');
      }
    });
  });

  describe('a failing endpoint', () => {
    it('is failing after exactly N failures in a row, over all its notifications', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 1, max: 6 }),
          fc.array(fc.boolean(), { minLength: 1, maxLength: 14 }),
          async (failingAfter, answers) => {
            const client = await newDeliveryClient({ failingAfter });
            let inARow = 0;
            for (const [i, ok] of answers.entries()) {
              inARow = ok ? 0 : inARow + 1;
              const settled = await client.attempt(await client.owe(`vid-${i}`), { ok });
              assert.equal(settled.change?.to, inARow === failingAfter ? 'failing' : undefined);
              if (inARow === failingAfter) break;
            }
            client.db.redis.disconnect();
          },
        ),
        { numRuns: 25 },
      );
    });

    it('is probed after 10 s, 30 s, 1 min, 2 min and then every 5 min, one probe at a time', async () => {
      const client = await newDeliveryClient();
      await makeFailing(client);
      const owed = await client.owe('vid');
      for (const promised of [10, 30, 60, 120, 300, 300, 300].map((s) => s * second)) {
        const refused = await client.take(owed, 'probe');
        assert.ok(refused.kind === 'refused' && refused.reason === 'failing', JSON.stringify(refused));
        assert.ok(
          refused.inMs > promised - 5 * second && refused.inMs <= promised * 1.1 + 1,
          `${refused.inMs}`,
        );
        client.pass(promised * 1.1 + 1);
        const probe = await taken(client, owed, 'probe');
        const other = await client.take(await client.owe('another'), 'probe');
        assert.ok(other.kind === 'refused' && other.reason === 'failing');
        assert.equal((await client.settle(owed, probe, fail)).change?.to, undefined);
      }
    });

    it('admits nothing but probes', async () => {
      const client = await newDeliveryClient();
      await makeFailing(client);
      client.pass(hour);
      const owed = await client.owe('vid');
      for (const mode of ['first', 'retry', 'drain'] as const) {
        const refused = await client.take(owed, mode);
        assert.ok(refused.kind === 'refused' && refused.reason === 'failing', mode);
      }
    });

    it('is active once a probe succeeds, and all waiting assets are due', async () => {
      const client = await newDeliveryClient();
      await makeFailing(client);
      client.pass(11 * second);
      const settled = await client.attempt(await client.owe('vid'), succeed, 'probe');
      assert.equal(settled.change?.to, 'active');
      const keys = client.db.client(client.clientToken);
      assert.equal(await client.db.redis.zcount(keys.dueLive, '-inf', client.now()), schedule.failingAfter);
    });

    it('also drains an asset that failed in the same turn in which its probe succeeded', async () => {
      const client = await newDeliveryClient({ retryScheduleMs: [hour] });
      const slow = await client.owe('slow');
      const slowly = await taken(client, slow);
      await makeFailing(client);
      client.pass(11 * second);
      const probed = await client.owe('probed');
      const probe = await taken(client, probed, 'probe');
      const { settled } = await client.turn({
        verdicts: [client.verdict(slow, slowly, fail), client.verdict(probed, probe, succeed)],
      });
      assert.deepEqual(
        settled.map(({ outcome }) => outcome),
        ['retry', 'delivered'],
      );
      assert.equal((await client.take(slow, 'drain')).kind, 'taken');
    });

    it('gives its probe place back when a probe is never answered', async () => {
      const client = await newDeliveryClient();
      await makeFailing(client);
      client.pass(11 * second);
      await taken(client, await client.owe('crashed'), 'probe');
      client.pass(leaseMs);
      await taken(client, await client.owe('next'), 'probe');
    });

    it('has one probe at a time even if it is resumed while one is under way', async () => {
      const client = await newDeliveryClient();
      await makeFailing(client);
      client.pass(11 * second);
      const probed = await client.owe('probed');
      const probe = await taken(client, probed, 'probe');
      assert.equal(await resumeEndpoint(client.db, client.clientToken), true);
      const another = await client.take(await client.owe('another'), 'probe');
      assert.ok(another.kind === 'refused' && another.reason === 'failing', JSON.stringify(another));
      assert.equal((await client.settle(probed, probe, succeed)).change?.to, 'active');
    });

    it('is probed immediately when it is resumed', async () => {
      const client = await newDeliveryClient();
      await makeFailing(client);
      await resumeEndpoint(client.db, client.clientToken);
      await taken(client, await client.owe('vid'), 'probe');
    });
  });

  describe('suspension', () => {
    const often = { probeScheduleMs: [hour], suspendAfterMs: 5 * day };

    it('begins after 5 days and at least 20 failed attempts, not before', async () => {
      for (const probeEveryMs of [hour, 12 * hour]) {
        const client = await newDeliveryClient({ probeScheduleMs: [probeEveryMs] });
        const since = client.now();
        await makeFailing(client);
        const owed = await client.owe('vid');
        let attempts = schedule.failingAfter;
        for (;;) {
          client.pass(probeEveryMs * 1.1 + 1);
          attempts++;
          const settled = await client.attempt(owed, fail, 'probe');
          if (settled.change?.to === 'suspended') break;
          const age = client.now() - since;
          assert.ok(age < 5 * day || attempts < 20, `still failing after ${age} ms and ${attempts} attempts`);
        }
        assert.ok(client.now() - since >= 5 * day && attempts >= 20);
        const refused = await client.take(owed, 'probe');
        assert.ok(refused.kind === 'refused' && refused.reason === 'suspended');
      }
    });

    it('ignores failures from before a resume, and begins again after another 5 days', async () => {
      const client = await newDeliveryClient(often);
      const owed = await client.owe('vid');
      await client.attempt(owed, { ok: false, status: 410 });
      client.pass(20 * day);
      assert.equal(await resumeEndpoint(client.db, client.clientToken), true);
      assert.equal((await client.attempt(owed, fail, 'probe')).change?.to, undefined);
      assert.equal((await client.endpoint()).state, 'failing');
    });

    it('begins immediately with 410', async () => {
      const client = await newDeliveryClient();
      const settled = await client.attempt(await client.owe('vid'), { ok: false, status: 410 });
      assert.equal(settled.change?.to, 'suspended');
      assert.equal(settled.outcome, 'retry', 'everything stays owed');
    });

    it('is not ended by the success of an attempt that began before it', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const attempt = await taken(client, owed);
      await client.attempt(await client.owe('gone'), { ok: false, status: 410 });
      const settled = await client.settle(owed, attempt, succeed);
      assert.equal(settled.outcome, 'delivered');
      assert.equal(settled.change?.to, undefined);
      assert.equal((await client.endpoint()).state, 'suspended');
    });
  });

  describe('an attempt that has not begun', () => {
    it('is given back without being counted, and is due again after its time', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const { token } = await taken(client, owed);
      const health = await client.endpoint();
      await client.turn({ givenBack: [{ platformId: 'vid', token, inMs: minute }] });
      assert.deepEqual(await client.endpoint(), health);
      const record = await getNotification(client.db, client.clientToken, owed.notificationId);
      assert.deepEqual([record?.state, record?.attempts], ['waiting', []]);
      const early = await client.take(owed, 'retry');
      assert.ok(early.kind === 'refused' && early.reason === 'not_due', JSON.stringify(early));
      client.pass(minute);
      assert.equal((await client.take(owed, 'retry')).kind, 'taken');
    });

    it('gives the one probe place back with it', async () => {
      const client = await newDeliveryClient();
      await makeFailing(client);
      client.pass(11 * second);
      const { token } = await taken(client, await client.owe('vid'), 'probe');
      await client.turn({ givenBack: [{ platformId: 'vid', token, inMs: minute }] });
      await taken(client, await client.owe('next'), 'probe');
    });

    it('gives back only its own lease', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const { token } = await taken(client, owed);
      client.pass(leaseMs);
      const other = await taken(client, owed);
      const before = await whatIsOwed(client);
      await client.turn({ givenBack: [{ platformId: 'vid', token, inMs: 0 }] });
      assert.deepEqual(await whatIsOwed(client), before);
      assert.equal((await client.settle(owed, other, fail)).failures, 1);
    });

    it('keeps its asset as long as it extends its lease, and learns when it has lost it', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const { token } = await taken(client, owed);
      const extend = async () =>
        (await client.turn({ extended: [{ platformId: 'vid', token }] })).extended[0];
      for (let i = 0; i < 5; i++) {
        client.pass(leaseMs / 2);
        const refused = await client.take(owed);
        assert.ok(refused.kind === 'refused' && refused.reason === 'leased', JSON.stringify(refused));
        assert.equal(await extend(), true);
      }
      client.pass(leaseMs);
      assert.equal((await client.take(owed)).kind, 'taken');
      assert.equal(await extend(), false);
    });

    it('of a redelivery is given back or extended by itself, also beside a first attempt of the same turn', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const { takes } = await client.turn({
        wanted: [
          { ...owed, mode: 'first' },
          { ...owed, mode: 'redeliver' },
        ],
      });
      const [{ token }] = takes as [Taken];
      const lease = { platformId: 'vid', token, resent: owed.notificationId };
      const { flight } = await whatIsOwed(client);
      const extend = async () => (await client.turn({ extended: [lease] })).extended[0];
      const { resends } = client.db.client(client.clientToken);
      const leaseEnd = async () => Number((await client.db.redis.hvals(resends))[0]);
      const before = await leaseEnd();
      client.pass(leaseMs / 2);
      assert.equal(await extend(), true);
      assert.ok((await leaseEnd()) >= before + leaseMs / 2);
      assert.equal((await getEndpoint(client.db, client.clientToken)).inFlight, 2);
      await client.turn({ givenBack: [{ ...lease, inMs: minute }] });
      assert.equal((await getEndpoint(client.db, client.clientToken)).inFlight, 1);
      assert.equal(await extend(), false);
      assert.deepEqual((await whatIsOwed(client)).flight, flight);
    });
  });

  describe('verdicts that come late, twice or from before', () => {
    it('change no health of a later epoch', async () => {
      const client = await newDeliveryClient();
      const before: [Owed, Taken][] = [];
      for (let i = 0; i < 6; i++) {
        const owed = await client.owe(`slow-${i}`);
        before.push([owed, await taken(client, owed)]);
      }
      await makeFailing(client);
      client.pass(11 * second);
      await client.attempt(await client.owe('probed'), succeed, 'probe');
      const { state, epoch, failures } = await client.endpoint();
      for (const [owed, attempt] of before) {
        assert.equal((await client.settle(owed, attempt, fail)).change?.to, undefined);
      }
      const after = await client.endpoint();
      assert.deepEqual(
        { state: after.state, epoch: after.epoch, failures: after.failures },
        { state, epoch, failures },
        'five answers from before do not make the next failure the sixth',
      );
    });

    it('settle nothing for another URL, neither as delivered nor as failed', async () => {
      for (const answer of [
        succeed,
        fail,
        { ok: false, status: 410 },
        { ok: false, status: 503, retryAfterMs: hour },
      ]) {
        const client = await newDeliveryClient();
        const owed = await client.owe('vid');
        const attempt = await taken(client, owed);
        await changeRegistration(client.db, client.clientToken, 'https://elsewhere.example/');
        const health = await client.endpoint();
        const settled = await client.settle(owed, attempt, answer);
        assert.deepEqual([settled.outcome, settled.inMs, settled.failures], ['retry', 0, 0]);
        assert.deepEqual(await client.endpoint(), health);
        const again = await taken(client, owed);
        assert.equal(again.url, 'https://elsewhere.example/');
      }
    });

    it('count once even if they are repeated', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const attempt = await taken(client, owed);
      for (let i = 0; i < 3; i++) assert.equal((await client.settle(owed, attempt, fail)).failures, 1);
      assert.equal((await client.endpoint()).failures, '1');
      const record = await getNotification(client.db, client.clientToken, owed.notificationId);
      assert.equal(record?.attempts.length, 1);
      const early = await client.take(owed, 'retry');
      assert.ok(early.kind === 'refused' && early.reason === 'not_due');
    });

    it('count only for their own attempt, even if another of the same asset follows soon', async () => {
      const client = await newDeliveryClient({ failingAfter: 1000 });
      const owed = await client.owe('vid');
      const attempts: Taken[] = [];
      for (let failures = 1; failures <= 20; failures++) {
        const attempt = await taken(client, owed);
        for (const earlier of attempts) await client.settle(owed, earlier, fail);
        assert.equal((await client.settle(owed, attempt, fail)).failures, failures);
        attempts.push(attempt);
      }
    });

    it('deliver also after their lease, as long as the notification is the newest', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const late = await taken(client, owed);
      client.pass(leaseMs);
      const again = await taken(client, owed);
      assert.equal((await client.settle(owed, late, succeed)).outcome, 'delivered');
      const leased = await client.take(await client.owe('vid'));
      assert.ok(leased.kind === 'refused' && leased.reason === 'leased', 'two POSTs of one asset');
      assert.equal((await client.settle(owed, again, fail)).outcome, 'gone');
      const record = await getNotification(client.db, client.clientToken, owed.notificationId);
      assert.equal(record?.state, 'delivered');
    });

    it('tell a repeated call that it was delivered', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const attempt = await taken(client, owed);
      for (let i = 0; i < 2; i++) {
        const settled = await client.settle(owed, attempt, succeed);
        assert.deepEqual([settled.outcome, settled.change], ['delivered', undefined]);
      }
    });

    it('of a redelivery leave the place of an attempt under way', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const first = await taken(client, owed);
      const again = await taken(client, owed, 'redeliver');
      assert.equal((await client.settle(owed, again, { ok: true, redeliver: true })).outcome, 'delivered');
      assert.equal((await getEndpoint(client.db, client.clientToken)).inFlight, 1);
      assert.equal((await client.settle(owed, first, fail)).outcome, 'gone');
      assert.deepEqual(await whatIsOwed(client), { waiting: {}, flight: {} });
    });

    it('of a notification sent again keep its record only as long as an ended one', async () => {
      const client = await newDeliveryClient();
      const owed = await client.owe('vid');
      const again = await taken(client, owed, 'redeliver');
      await client.settle(owed, again, { ok: false, redeliver: true });
      const keys = client.db.client(client.clientToken);
      assert.equal(await client.db.redis.pttl(keys.notification(owed.notificationId)), -1, 'it is owed');
    });
  });
});
