/** Exact times and numbers of section 3 of the contract, which the model (model.test.ts) leaves open. */
import assert from 'node:assert/strict';
import { assetSlot } from '../../src/ids.js';
import { forgetAsset } from '../../src/redis/notifications/decisions.js';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import { recoverFailed, redeliver, replayDelivered } from '../../src/redis/notifications/redeliver.js';
import { setAlarm } from '../../src/redis/owed/owedClients.js';
import type { Settled, Taken } from '../../src/redis/owed/turn.js';
import { setClient } from '../../src/redis/records/clients.js';
import { getEndpoint, resumeEndpoint, setHeld, setPaused } from '../../src/redis/records/endpoint.js';
import { changeRegistration } from '../../src/redis/records/registrations.js';
import { bounds } from '../servers.js';
import {
  type Answer,
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

/** Takes the oldest due and settles it. */
async function attempt(client: DeliveryClient, answer: Answer): Promise<Settled> {
  const [taken] = await client.take(1);
  return await client.settle(taken ?? assert.fail('nothing was taken'), answer);
}

describe('The default settings', () => {
  it('are the times and numbers of the contract', () => {
    const { failingAfter, probeScheduleMs, retryScheduleMs, retryWindowMs, suspendAfterMs } = settings;
    const seconds = (...all: number[]) => all.map((one) => one * second);
    assert.deepEqual(retryScheduleMs, seconds(5, 30, 120, 600, 1800, 3600, 7200, 14_400));
    assert.deepEqual(probeScheduleMs, seconds(10, 30, 60, 120, 300));
    assert.deepEqual([failingAfter, settings.suspendMinimumAttempts, bounds.maxInFlight], [5, 20, 16]);
    assert.deepEqual([retryWindowMs, suspendAfterMs], [5 * day, 5 * day]);
  });
});

describe('An attempt', () => {
  it('has catch-up woken, also if that sleeps for longer than the client must wait; not where it waits for its turn', async () => {
    const client = await newDeliveryClient();
    await client.owe('vid');
    await client.plan(15 * second);
    const alarm = (inMs: number) => setAlarm(client.db, client.clientToken, inMs);
    assert.equal(await alarm(leaseMs), 'covered');
    assert.equal(await alarm(0), 'woken');
    assert.equal(await alarm(0), 'covered');
  });

  it('is made no more after 5 days, if the endpoint accepts others', async () => {
    const client = await newDeliveryClient();
    const { notificationId } = await client.owe('refused');
    const since = client.now();
    for (let outcome = 'retry'; outcome !== 'failed'; ) {
      const settled = await attempt(client, { ok: false, status: 400 });
      outcome = settled.result;
      await client.owe('taken');
      await attempt(client, ok);
      client.pass(settled.inMs ?? 0);
      assert.ok(client.now() - since < settings.retryWindowMs + minute, 'ended in time');
    }
    assert.ok(client.now() - since > settings.retryWindowMs - 5 * hour, 'the last attempt fits');
    const record = await getNotification(client.db, client.clientToken, notificationId);
    assert.deepEqual([record?.state, record?.reason], ['failed', 'window']);
    assert.equal(record?.attempts.length, 20, 'the newest are kept');
    const { bucket, field } = assetSlot('refused');
    await client.db.redis.hdel(client.db.client(client.clientToken).known(bucket), field);
    const range = { since: 0, until: client.now() + minute, dryRun: true };
    const { count } = await recoverFailed(client.db, client.clientToken, range);
    assert.equal(count, 1, 'it can be sent again although its segments are forgotten');
  });

  it('is made after 5 days too, if the endpoint accepts no others', async () => {
    const client = await newDeliveryClient({ failingAfter: 1000 });
    await client.owe('vid');
    assert.equal((await attempt(client, fail)).isFirst, true);
    client.pass(9 * day);
    const { result, isFirst } = await attempt(client, fail);
    assert.deepEqual([result, isFirst], ['retry', false]);
  });

  it('is made after 5 days too in which nothing could be sent, because the client was paused and its account disabled', async () => {
    const client = await newDeliveryClient();
    await client.owe('refused');
    await attempt(client, fail);
    for (const stop of [setPaused, setHeld]) await stop(client.db, client.clientToken, true);
    client.pass(9 * day);
    for (const stop of [setHeld, setPaused]) await stop(client.db, client.clientToken, false);
    await client.owe('taken');
    const [refused, taken] = await client.take(2);
    assert.ok(refused && taken);
    assert.equal((await client.settle(taken, ok)).result, 'delivered');
    assert.equal((await client.settle(refused, fail)).result, 'retry');
  });

  it('suspends an endpoint after 5 days with at least 20 failures, and after a resume not before another 5 days', async () => {
    for (const probeEveryMs of [hour, 12 * hour]) {
      const client = await newDeliveryClient({ probeScheduleMs: [probeEveryMs] });
      client.pass(4 * day);
      const since = client.now();
      let attempts = 0;
      for (let state = ''; state !== 'suspended'; attempts++) {
        const age = client.now() - since;
        assert.ok(age <= 5 * day + 2 * probeEveryMs || attempts < 21, `${age} ms, ${attempts} attempts`);
        if (state === '') await client.owe(`vid-${attempts}`);
        else client.pass(probeEveryMs * 1.1 + 1);
        state = (await attempt(client, fail)).change?.to ?? state;
      }
      assert.ok(client.now() - since >= 5 * day && attempts >= 20);
      await resumeEndpoint(client.db, client.clientToken);
      assert.equal((await attempt(client, fail)).change, undefined);
    }
  });

  it('follows a change of the URL soon, and a successful probe, however many wait for a later time', async () => {
    const client = await newDeliveryClient({ failingAfter: 1000 });
    const { db, clientToken } = client;
    const { dueLive, dueBackfill } = db.client(clientToken);
    for (let n = 0; n < 3000; n += 100) {
      const events = Array.from({ length: 100 }, (_, i) => {
        return client.event({ platformId: `vid-${n + i}`, priority: n < 500 ? 'backfill' : 'live' });
      });
      await client.claims(events, { most: 0 });
    }
    const putOff = async () => {
      for (const key of [dueLive, dueBackfill]) {
        const waiting = await db.redis.zrange(key, '0', '-1');
        await db.redis.zadd(key, ...waiting.flatMap((asset, i) => [client.now() + 4 * hour + i, asset]));
      }
    };
    const later = async () =>
      (await db.redis.zcount(dueLive, client.now() + second, '+inf')) +
      (await db.redis.zcount(dueBackfill, client.now() + second, '+inf'));
    /** What catch-up and couriers do meanwhile. */
    const goOn = async () => {
      for (let n = 0; n < 20 && (await later()) > 0; n++) await client.plan();
      assert.equal(await later(), 0);
    };
    await putOff();
    await changeRegistration(db, clientToken, 'https://elsewhere.example/');
    assert.ok((await later()) > 0, 'no script holds Redis for long');
    await goOn();

    await putOff();
    const { endpoint } = db.client(clientToken);
    await db.redis.hset(endpoint, { state: 'failing', probe_at: client.now() });
    const [probe] = await client.take(1);
    assert.ok(probe);
    assert.equal((await client.settle(probe, ok)).change?.to, 'active');
    await goOn();
  });

  it('waits no longer because Redis’ clock was set back by an hour', async () => {
    const client = await newDeliveryClient({ failingAfter: 2 });
    await client.owe('taken by a process that died');
    const [held] = await client.take(1);
    await client.owe('refused');
    await attempt(client, { ok: false, status: 503, retryAfterMs: minute });
    client.pass(-hour);
    await client.plan();
    client.pass(2 * minute);
    const taken = await client.take();
    assert.deepEqual(taken.map(({ platformId }) => platformId).sort(), ['refused', held?.platformId]);
    const change = (await client.turn({ verdicts: taken.map((one) => client.verdict(one, fail)) })).settled;
    assert.ok(change.some(({ change }) => change?.to === 'failing'));
    client.pass(-hour);
    const late = (await getEndpoint(client.db, client.clientToken)).catchUpLateMs;
    assert.ok(late > minute, 'the sweep sets the alarm');
    await client.plan();
    client.pass(minute);
    assert.equal((await client.take()).length, 1, 'the next probe');
  });

  it('waits for its quiet period at most, although Redis’ clock was set back by an hour', async () => {
    const client = await newDeliveryClient();
    const { db, clientToken } = client;
    await setClient(db, clientToken, { quietSeconds: 60 });
    // More assets than one call makes due are due at the same time.
    const events = Array.from({ length: 300 }, (_, i) => client.event({ platformId: `vid-${i}` }));
    await client.claims(events, { most: 0 });
    await setPaused(db, clientToken, true);
    await setPaused(db, clientToken, false);
    await client.plan();
    assert.equal((await client.take()).length, 0, 'their period is not over');
    client.pass(-hour);
    const { catchUpLateMs } = await getEndpoint(db, clientToken);
    assert.ok(catchUpLateMs > minute, 'the sweep sets the alarm');
    await client.plan();
    client.pass(minute);
    assert.ok((await client.take()).length > 0);
  });

  it('that has delivered, and is told once more after a lost answer, ends nothing that is owed again', async () => {
    const client = await newDeliveryClient();
    const { db, clientToken } = client;
    const event = client.event({ platformId: 'vid' });
    const range = { since: 0, dryRun: false };
    await client.claim(event);
    for (const oweAgain of [
      () => redeliver(db, clientToken, event.notificationId),
      () => replayDelivered(db, clientToken, { ...range, until: client.now() }),
      () => forgetAsset(db, clientToken, 'vid').then(() => client.claim(event)),
    ]) {
      const [taken] = await client.take();
      assert.ok(taken);
      assert.equal((await client.settle(taken, ok)).result, 'delivered');
      client.pass(second);
      await oweAgain();
      assert.equal((await client.settle(taken, ok)).result, 'retry', String(oweAgain));
    }
    assert.equal((await client.take()).length, 1);
  });

  it('that has delivered before a replay is part of it on a machine whose clock is behind Redis', async () => {
    const client = await newDeliveryClient();
    await client.owe('video');
    await attempt(client, { ok: true });
    const { now } = Date;
    Date.now = () => now() - hour;
    try {
      const { count } = await replayDelivered(client.db, client.clientToken, { since: 0, dryRun: true });
      assert.equal(count, 1);
    } finally {
      Date.now = now;
    }
  });

  it('that fails is shown with its class and its status', async () => {
    const client = await newDeliveryClient();
    await client.owe('video');
    await attempt(client, { ok: false, status: 503, retryAfterMs: minute });
    const shown = await getEndpoint(client.db, client.clientToken);
    assert.deepEqual([shown?.lastError, shown?.lastStatus, shown?.failures], ['http_status', 503, 1]);
  });

  it('that fails after another one has suspended the endpoint leaves the failure that is shown', async () => {
    const client = await newDeliveryClient();
    for (const asset of ['gone', 'slow']) await client.owe(asset);
    const [gone, slow] = await client.take(2);
    assert.ok(gone && slow);
    await client.settle(gone, { ok: false, status: 410 });
    await client.settle(slow, fail);
    const { state, lastStatus } = await getEndpoint(client.db, client.clientToken);
    assert.deepEqual([state, lastStatus], ['suspended', 410]);
  });

  it('carries trace and body of its event, also if it waited for the end of another attempt', async () => {
    const client = await newDeliveryClient();
    const wanted = { trace: '00-aa-bb-01', body: '{"type":"a notice"}' };
    const event = () => client.event({ platformId: 'vid', ...wanted });
    const carried = ({ trace, body }: Taken) => ({ trace, body });
    const { taken } = await client.claims([event()]);
    await client.claim(event());
    const verdicts = taken.map((one) => client.verdict(one, fail));
    const turned = await client.turn({ verdicts, most: 1 });
    assert.deepEqual([...taken, ...turned.taken].map(carried), [wanted, wanted]);
  });
});
