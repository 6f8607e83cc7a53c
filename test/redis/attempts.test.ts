/** Exact times and numbers of section 3 of the contract, which the model (model.test.ts) leaves open. */
import assert from 'node:assert/strict';
import { assetSlot } from '../../src/ids.js';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import { recoverFailed } from '../../src/redis/notifications/redeliver.js';
import { countSpan } from '../../src/redis/notifications/replay.js';
import type { Settled, Taken } from '../../src/redis/owed/turn.js';
import { setClient } from '../../src/redis/records/clients.js';
import { getEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { changeRegistration } from '../../src/redis/records/registrations.js';
import { settings } from '../servers.js';
import {
  type Answer,
  type DeliveryClient,
  day,
  fail,
  hour,
  minute,
  newDeliveryClient,
  ok,
  second,
} from './deliveryClient.js';

describe('The default settings', () => {
  it('are the times and numbers of the contract', () => {
    const { failingAfter, probeScheduleMs, retryWindowMs, suspendAfterMs } = settings;
    const seconds = (...all: number[]) => all.map((one) => one * second);
    assert.deepEqual(probeScheduleMs, seconds(10, 30, 60, 120, 300));
    assert.deepEqual([failingAfter, settings.suspendMinimumAttempts, settings.maxInFlight], [5, 20, 16]);
    assert.deepEqual([retryWindowMs, suspendAfterMs], [5 * day, 5 * day]);
  });
});

describe('A first attempt', () => {
  type Step = (client: DeliveryClient) => Promise<unknown>;
  const pauses =
    (isPaused: boolean): Step =>
    (client) =>
      setPaused(client.db, client.clientToken, isPaused);
  const bounds =
    (bound: Parameters<typeof setClient>[2]): Step =>
    (client) =>
      setClient(client.db, client.clientToken, bound);
  const passes =
    (ms: number): Step =>
    async (client) =>
      client.pass(ms);
  const fails =
    (times: number, answer: Answer): Step =>
    async (client) => {
      for (let i = 0; i < times; i++) await client.attempt(await client.owe(`earlier-${i}`), answer);
    };
  const none: Step = async () => undefined;
  const rows: [what: string, isTimed: boolean, before: Step, afterwards: Step][] = [
    ['nothing', true, none, none],
    ['a pause that had ended', true, (c) => pauses(true)(c).then(() => pauses(false)(c)), none],
    [
      'a pause that has ended since',
      false,
      pauses(true),
      (c) => passes(second)(c).then(() => pauses(false)(c)),
    ],
    ['a rate', false, bounds({ max_per_second: 5 }), passes(second)],
    ['a rate, for less than a second', true, bounds({ max_per_second: 5 }), none],
    ['a quiet period', false, bounds({ quiet_seconds: 60 }), passes(minute + second)],
    [
      'a Retry-After',
      false,
      fails(1, { ok: false, status: 429, retryAfterMs: minute }),
      passes(minute + second),
    ],
    ['its endpoint, which has failed', false, fails(settings.failingAfter, fail), passes(minute)],
  ];
  for (const [what, isTimed, before, afterwards] of rows)
    it(`counts for the objective unless the client may have held it back: ${what}`, async () => {
      const client = await newDeliveryClient();
      await before(client);
      client.pass(second);
      await client.owe('asset');
      await afterwards(client);
      let settled: Settled | undefined;
      for (; settled === undefined; client.pass(second))
        for (const taken of await client.take()) {
          const one = await client.settle(taken, ok);
          if (taken.platformId === 'asset') settled = one;
        }
      assert.equal(settled.isTimed, isTimed);
    });
});

describe('An attempt', () => {
  it('is made no more after 5 days, if the endpoint accepts others', async () => {
    const client = await newDeliveryClient();
    const { notificationId } = await client.owe('refused');
    const since = client.now();
    for (let outcome = 'retry'; outcome !== 'failed'; ) {
      const settled = await client.attempt({ platformId: 'refused' }, { ok: false, status: 400 });
      outcome = settled.result;
      await client.attempt(await client.owe('taken'), ok);
      client.pass(settled.inMs ?? 0);
      assert.ok(client.now() - since < settings.retryWindowMs + minute, 'ended in time');
    }
    assert.ok(client.now() - since > settings.retryWindowMs - 5 * hour, 'the last attempt fits');
    const record = await getNotification(client.db, client.clientToken, notificationId);
    assert.deepEqual([record?.state, record?.reason], ['failed', 'window']);
    assert.equal(record?.attempts.length, 20, 'the newest are kept');
    const { bucket, field } = assetSlot('refused');
    await client.db.redis.hdel(client.db.client(client.clientToken).known(bucket), field);
    client.pass(-hour);
    const { count } = await recoverFailed(client.db, client.clientToken, { since: 0, dryRun: true });
    assert.equal(count, 1, 'it can be sent again, without its segments and after the clock was set back');
  });

  it('is made further after an outage of 6 days: only while it accepts others does an endpoint refuse one', async () => {
    const client = await newDeliveryClient();
    for (let i = 0; i < 6; i++) await client.owe(`owed-${i}`);
    for (const taken of await client.take()) await client.settle(taken, fail);
    client.pass(6 * day);
    const [probe] = await client.take();
    assert.ok(probe);
    assert.equal((await client.settle(probe, ok)).change?.to, 'active');
    const [next] = await client.take();
    assert.ok(next);
    assert.equal((await client.settle(next, fail)).result, 'retry');
  });

  it('at a new URL begins with the first wait, whatever the former one refused and for how long', async () => {
    const client = await newDeliveryClient();
    const refused = await client.owe('refused');
    for (let passed = 0; passed < 4.7 * day; ) {
      const { inMs = 0 } = await client.attempt(refused, fail);
      await client.attempt(await client.owe('taken'), ok);
      client.pass(inMs);
      passed += inMs;
    }
    await changeRegistration(client.db, client.clientToken, 'https://elsewhere.example/');
    const [taken] = await client.take();
    assert.ok(taken);
    const { result, failures, inMs = 0 } = await client.settle(taken, fail);
    assert.deepEqual([result, failures], ['retry', 1]);
    assert.ok(inMs < 6 * second, `${inMs} ms`);
    await client.attempt(await client.owe('taken'), ok);
    client.pass(inMs);
    assert.equal((await client.attempt(refused, fail)).result, 'retry');
  });

  it('that has delivered before a replay is part of it on a machine whose clock is behind Redis', async () => {
    const client = await newDeliveryClient();
    await client.attempt(await client.owe('video'), ok);
    const { now } = Date;
    Date.now = () => now() - hour;
    try {
      const { count } = await countSpan(client.db, client.clientToken, { since: 0 }, () => {});
      assert.equal(count, 1);
    } finally {
      Date.now = now;
    }
  });

  it('that has delivered late before a replay is part of it where the process that accepted its event is ahead', async () => {
    const client = await newDeliveryClient();
    client.setAhead(-4 * minute);
    const owed = await client.owe('video', { acceptedAt: client.callersNow() });
    client.pass(3 * minute);
    await client.attempt(owed, ok);
    const span = { since: client.now() - second };
    assert.equal((await countSpan(client.db, client.clientToken, span, () => {})).count, 1);
  });

  it('of a superseded notification that is answered 2xx ends it then, after its own beginning', async () => {
    const client = await newDeliveryClient();
    await client.owe('vid');
    const [taken] = await client.take();
    assert.ok(taken);
    await client.owe('vid');
    client.pass(second);
    assert.equal((await client.settle(taken, ok)).result, 'delivered');
    const record = await getNotification(client.db, client.clientToken, taken.notificationId);
    assert.equal(record?.state, 'delivered');
    assert.ok((record?.endedAt ?? 0) >= (record?.attempts[0]?.at ?? Infinity), 'not when it was superseded');
  });

  it('that fails after another one has suspended the endpoint leaves the failure that is shown', async () => {
    const client = await newDeliveryClient();
    for (const asset of ['gone', 'slow']) await client.owe(asset);
    const [gone, slow] = await client.take(2);
    assert.ok(gone && slow);
    await client.settle(gone, { ok: false, status: 410 });
    await client.settle(slow, fail);
    const { state, lastError, lastStatus, failures } = await getEndpoint(client.db, client.clientToken);
    assert.deepEqual([state, lastError, lastStatus, failures], ['suspended', 'http_status', 410, 1]);
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
