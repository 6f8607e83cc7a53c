/** Exact times and numbers of section 3 of the contract, which the model (model.test.ts) leaves open. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import { cancelNotification } from '../../src/redis/notifications/redeliver.js';
import type { Taken } from '../../src/redis/owed/turn.js';
import { setClient } from '../../src/redis/records/clients.js';
import { resumeEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { changeRegistration } from '../../src/redis/records/registrations.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  day,
  fail,
  hour,
  leaseMs,
  minute,
  newDeliveryClient,
  ok,
  second,
  settings,
} from './deliveryClient.js';

const gone = { ok: false, status: 410 };

async function takeOne(client: DeliveryClient): Promise<Taken> {
  const [taken] = await client.take(1);
  return taken ?? assert.fail('nothing was taken');
}

/** Settles an attempt of the oldest due. */
const attempt = async (client: DeliveryClient, answer: Parameters<DeliveryClient['settle']>[1]) =>
  await client.settle(await takeOne(client), answer);

/** Why nothing may be sent, and in how many ms something may. */
async function refused(client: DeliveryClient): Promise<{ reason: string; inMs: number }> {
  const { taken, reason, nextInMs = -1 } = await client.turn({ most: 1 });
  assert.deepEqual(taken, []);
  return { reason, inMs: nextInMs };
}

async function makeFailing(client: DeliveryClient): Promise<void> {
  for (let i = 1; i <= settings.failingAfter; i++) {
    await client.owe(`sick-${i}`);
    const { change } = await attempt(client, fail);
    assert.equal(change?.to, i === settings.failingAfter ? 'failing' : undefined);
  }
}

const oweMany = async (client: DeliveryClient, many: number, priority: 'live' | 'backfill' = 'live') => {
  const events = Array.from({ length: many }, (_, i) =>
    client.event({ platformId: `${priority}-${i}`, priority }),
  );
  await client.claims(events, { most: 0 });
};

describe('An attempt', () => {
  after(closeDeliveryClients);

  it('follows a failed one by the next of the delays, never earlier and at most 10 % later', async () => {
    const delays = fc.array(fc.integer({ min: 1, max: 1e8 }), { minLength: 1, maxLength: 6 });
    const property = fc.asyncProperty(delays, async (retryScheduleMs) => {
      const client = await newDeliveryClient({
        ...{ retryScheduleMs, failingAfter: 1000, retryWindowMs: Number.MAX_SAFE_INTEGER },
      });
      await client.owe('vid');
      for (let failure = 1; failure <= retryScheduleMs.length + 2; failure++) {
        const promised = retryScheduleMs[Math.min(failure, retryScheduleMs.length) - 1] as number;
        const { failures, inMs = 0 } = await attempt(client, fail);
        assert.equal(failures, failure);
        assert.ok(inMs >= promised && inMs <= Math.ceil(promised * 1.1), `${inMs}`);
        client.pass(inMs);
      }
      client.db.redis.disconnect();
    });
    await fc.assert(property, { numRuns: 12 });
  });

  it('is made no more after 5 days, if the endpoint accepts others', async () => {
    const client = await newDeliveryClient();
    const { notificationId } = await client.owe('refused');
    const since = client.now();
    for (let outcome = 'retry'; outcome !== 'failed'; ) {
      const settled = await attempt(client, { ok: false, status: 400 });
      outcome = settled.outcome;
      await client.owe('taken');
      await attempt(client, ok);
      client.pass(settled.inMs ?? 0);
      assert.ok(client.now() - since < settings.retryWindowMs + minute, 'ended in time');
    }
    assert.ok(client.now() - since > settings.retryWindowMs - 5 * hour, 'the last attempt fits');
    const record = await getNotification(client.db, client.clientToken, notificationId);
    assert.deepEqual([record?.state, record?.reason], ['failed', 'window']);
    assert.equal(record?.attempts.length, 20, 'the newest are kept');
  });

  it('is made after 5 days too, if the endpoint accepts no others or the client was paused', async () => {
    const client = await newDeliveryClient({ failingAfter: 1000 });
    await client.owe('vid');
    await attempt(client, fail);
    client.pass(9 * day);
    assert.equal((await attempt(client, fail)).outcome, 'retry');
    await setPaused(client.db, client.clientToken, true);
    client.pass(9 * day);
    await setPaused(client.db, client.clientToken, false);
    assert.equal((await attempt(client, fail)).outcome, 'retry');
  });

  it('is made no more after 30 days, in any state and with an attempt that never ended', async () => {
    const client = await newDeliveryClient();
    const owed = [await client.owe('waits'), await client.owe('in flight')];
    client.pass(settings.retentionMs - second);
    await client.take();
    client.pass(leaseMs);
    await setPaused(client.db, client.clientToken, true);
    assert.deepEqual((await client.plan()).expired, 2);
    for (const { notificationId } of owed) {
      const record = await getNotification(client.db, client.clientToken, notificationId);
      assert.deepEqual([record?.state, record?.reason], ['failed', 'expired']);
    }
  });

  it('waits for the longest Retry-After, which neither a shorter one nor a probe lifts', async () => {
    const client = await newDeliveryClient();
    await oweMany(client, 3);
    const taken = await client.take(3);
    for (const [i, seconds] of [60, 3600, 30].entries()) {
      const retryAfterMs = seconds * second;
      await client.settle(taken[i] as Taken, { ok: false, status: 429, retryAfterMs });
    }
    await client.owe('other');
    const { reason, inMs } = await refused(client);
    assert.ok(reason === 'not_before' && inMs > hour - 5 * second && inMs <= hour, `${reason} ${inMs}`);
    client.pass(inMs);
    await takeOne(client);
  });

  for (const [name, lift] of [
    ['resume', resumeEndpoint],
    [
      'another URL',
      async (...[db, token]: Parameters<typeof resumeEndpoint>) =>
        changeRegistration(db, token, 'https://elsewhere.example/'),
    ],
  ] as const) {
    it(`no longer waits for Retry-After after ${name}`, async () => {
      const client = await newDeliveryClient();
      await client.owe('vid');
      await attempt(client, { ok: false, status: 503, retryAfterMs: hour });
      await lift(client.db, client.clientToken);
      await client.owe('another');
      await takeOne(client);
    });
  }

  it('probes a failing endpoint after 10 s, 30 s, 1 min, 2 min and then every 5 min, each with another asset', async () => {
    const client = await newDeliveryClient();
    await makeFailing(client);
    const probed: string[] = [];
    for (const promised of [10, 30, 60, 120, 300, 300].map((s) => s * second)) {
      const { reason, inMs } = await refused(client);
      assert.equal(reason, 'failing');
      assert.ok(inMs > promised - 5 * second && inMs <= promised * 1.1 + 1, `${inMs}`);
      client.pass(inMs);
      const probe = await takeOne(client);
      assert.equal((await refused(client)).reason, 'failing', 'one at a time');
      await client.settle(probe, fail);
      probed.push(probe.platformId);
    }
    assert.equal(new Set(probed.slice(0, 5)).size, 5);
    await resumeEndpoint(client.db, client.clientToken);
    const { change } = await attempt(client, ok);
    assert.equal(change?.to, 'active');
    assert.equal((await client.take()).length, 4, 'all that waits is due');
  });

  it('suspends an endpoint after 5 days with at least 20 failures, and after a resume not before another 5 days', async () => {
    for (const probeEveryMs of [hour, 12 * hour]) {
      const client = await newDeliveryClient({ probeScheduleMs: [probeEveryMs] });
      const since = client.now();
      await makeFailing(client);
      let attempts = settings.failingAfter;
      for (let state = ''; state !== 'suspended'; attempts++) {
        const age = client.now() - since;
        assert.ok(age <= 5 * day + 2 * probeEveryMs || attempts < 21, `${age} ms, ${attempts} attempts`);
        client.pass(probeEveryMs * 1.1 + 1);
        state = (await attempt(client, fail)).change?.to ?? '';
      }
      assert.ok(client.now() - since >= 5 * day && attempts >= 20);
      await resumeEndpoint(client.db, client.clientToken);
      assert.equal((await attempt(client, fail)).change, undefined);
    }
  });

  it('suspends an endpoint immediately by 410, and everything stays owed', async () => {
    const client = await newDeliveryClient();
    await client.owe('vid');
    const { change, outcome } = await attempt(client, gone);
    assert.deepEqual([change?.to, outcome], ['suspended', 'retry']);
    assert.equal((await refused(client)).reason, 'suspended');
  });

  it('shares places: 16, of which backfill leaves a quarter, and one in four is of it while both wait', async () => {
    for (const [bound, backfill] of [
      [undefined, 12],
      [5, 4],
      [2, 1],
      [1, 1],
    ] as const) {
      const client = await newDeliveryClient();
      await setClient(client.db, client.clientToken, { maxInFlight: bound });
      await oweMany(client, 20, 'backfill');
      assert.equal((await client.take()).length, backfill);
      await oweMany(client, 20);
      const live = await client.take();
      assert.equal(live.length, (bound ?? 16) - backfill);
      if (bound === undefined) {
        const verdicts = live.map((one) => client.verdict(one, ok));
        const { taken } = await client.turn({ verdicts, most: 4 });
        const ofBackfill = taken.filter(({ priority }) => priority === 'backfill');
        assert.equal(ofBackfill.length, 1, 'in any place');
      }
    }
  });

  for (const [name, limit] of [
    [
      'max_per_second',
      (client: DeliveryClient) => setClient(client.db, client.clientToken, { maxPerSecond: 20 }),
    ],
    [
      'the drain rate after a pause',
      async (client: DeliveryClient) => {
        client.settings.drainPerSecond = 20;
        client.pass(second);
        for (const isPaused of [true, false]) await setPaused(client.db, client.clientToken, isPaused);
      },
    ],
  ] as const) {
    it(`keeps to ${name}, and uses all of it`, async () => {
      const client = await newDeliveryClient({ maxInFlight: 1000 });
      await oweMany(client, 60);
      await limit(client);
      const startedAt = client.now();
      let through = 0;
      for (let i = 0; i < 10; i++) {
        through += (await client.take()).length;
        const allowed = ((client.now() - startedAt) / second + 0.1) * 20 + 2;
        assert.ok(through <= allowed, `${through} of ${allowed}`);
        client.pass(100);
      }
      assert.ok(through >= 17, `${through}`);
    });
  }

  it('carries trace and body of its event, also if it waited for the end of another attempt', async () => {
    const client = await newDeliveryClient();
    const event = () =>
      client.event({ platformId: 'vid', trace: '00-aa-bb-01', body: '{"type":"a notice"}' });
    const carried = ({ trace, body }: Taken) => ({ trace, body });
    const { taken } = await client.claims([event()]);
    await client.claim(event());
    const verdicts = taken.map((one) => client.verdict(one, fail));
    const turned = await client.turn({ verdicts, most: 1 });
    const wanted = { trace: '00-aa-bb-01', body: '{"type":"a notice"}' };
    assert.deepEqual([...taken, ...turned.taken].map(carried), [wanted, wanted]);
  });

  it('is timed by the end of its lease, if its process dies while others wait for hours', async () => {
    const client = await newDeliveryClient({ retryScheduleMs: [hour] });
    await client.owe('later');
    await attempt(client, fail);
    await client.owe('lost');
    await client.take();
    const { inMs } = await client.plan();
    assert.ok(inMs > 0 && inMs <= leaseMs, `${inMs}`);
    client.pass(inMs);
    assert.equal((await client.plan()).inMs, 0);
    assert.equal((await takeOne(client)).platformId, 'lost');
  });

  it('keeps its place until it ends, if its notification is cancelled meanwhile', async () => {
    const client = await newDeliveryClient();
    const { notificationId } = await client.owe('vid');
    const taken = await takeOne(client);
    await cancelNotification(client.db, client.clientToken, notificationId);
    await client.owe('vid');
    assert.deepEqual(await client.take(), [], 'two POSTs of one asset');
    const { settled, taken: next } = await client.turn({ verdicts: [client.verdict(taken, ok)], most: 1 });
    assert.deepEqual([settled[0]?.outcome, next.length], ['gone', 1]);
  });
});
