import { createLogger } from '../../src/log.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { installRuntime } from '../../src/worker.js';
import { type Harness, type Receiver, startHarness, startReceiver } from '../../test/delivery/harness.js';
import { mochaGlobalSetup, mochaGlobalTeardown } from '../../test/servers.js';
import { lineChart } from '../lineChart.js';
import type { Findings, Study } from './study.js';
import { until } from './until.js';

type Size = 'assets' | 'hours';

const hourMs = 3_600_000;

/**
 * Uses the tests' harness, whose worker runs in this process: only there the service's clock of Redis can be moved
 * ahead.
 */
export const outage: Study<Size> = {
  name: 'outage',
  about: 'Attempts made while an endpoint is down for hours, and how owed assets drain after its return.',
  sizes: {
    assets: [2000, 'owed while it is down'],
    hours: [6, 'of outage, skipped from probe to probe'],
  },
  async run({ assets, hours }, stage) {
    installRuntime(createLogger('warn', 'bench'));
    await mochaGlobalSetup();
    const receiver = await startReceiver();
    const h = await startHarness();
    try {
      await h.startWorker();
      const clock = skippingClock(h);
      const client = await h.newClient(receiver.url);
      receiver.answer = () => 500;
      const downAt = clock.now();
      stage.say(`${assets} events while the endpoint answers 500`);
      for (let i = 0; i < assets; i += 500) {
        const page = Array.from({ length: Math.min(500, assets - i) }, (_, k) => `video-${i + k}`);
        await Promise.all(page.map((asset) => h.publish({ client, asset })));
      }
      await until('all are owed', 60_000, async () => {
        const { owed, inFlight, state } = await getEndpoint(h.db, client);
        return owed === assets && inFlight === 0 && state === 'failing';
      });

      stage.say(`${hours} hours, from probe to probe`);
      const attempts = receiver.received.map(() => clock.now() - downAt);
      while (clock.now() < downAt + hours * hourMs) {
        const { nextAttemptAt = 0 } = await getEndpoint(h.db, client);
        if (nextAttemptAt > downAt + hours * hourMs) {
          clock.skipTo(downAt + hours * hourMs);
          break;
        }
        clock.skipTo(nextAttemptAt + 1);
        await attempt(h, receiver, client);
        while (attempts.length < receiver.received.length) attempts.push(clock.now() - downAt);
      }

      stage.say('it answers 200 again');
      receiver.answer = () => 200;
      const backAt = clock.now();
      const before = receiver.received.length;
      const { nextAttemptAt = 0 } = await getEndpoint(h.db, client);
      clock.skipTo(nextAttemptAt + 1);
      await attempt(h, receiver, client);
      const foundAfterMs = clock.now() - backAt;
      await until('nothing is owed', 600_000, async () => (await getEndpoint(h.db, client)).owed === 0);
      const delivered = receiver.received.slice(before);
      return findings({
        assets,
        hours,
        attempts,
        foundAfterMs,
        delivered: delivered.map((r) => r.at),
        ids: new Set(delivered.map((r) => r.headers['webhook-id'])).size,
      });
    } finally {
      await h.close();
      await receiver.close();
      await mochaGlobalTeardown();
    }
  },
};

function skippingClock(h: Harness) {
  let skippedMs = 0;
  const now = () => Date.now() + skippedMs;
  return {
    now,
    skipTo(at: number) {
      const ms = Math.max(0, at - now());
      h.skip(ms);
      skippedMs += ms;
    },
  };
}

/** Wakes catch-up, whose workflow sleeps by the real clock, and waits until its attempts are settled. */
async function attempt(h: Harness, receiver: Receiver, client: string): Promise<void> {
  const before = receiver.received.length;
  h.delivering.catchUps.signal(client);
  await until('an attempt', 30_000, () => receiver.received.length > before);
  await until('it is settled', 30_000, async () => (await getEndpoint(h.db, client)).inFlight === 0);
}

interface Outage {
  assets: number;
  hours: number;
  /** ms since the beginning of the outage, by the moved clock. */
  attempts: readonly number[];
  foundAfterMs: number;
  /** Times of arrivals after the return, ms. */
  delivered: readonly number[];
  /** Distinct notifications among them. */
  ids: number;
}

/** The default schedule: immediately, then after these delays, each up to 10 % longer. */
const retrySchedule = [5, 30, 120, 600, 1800, 3600, 7200, 14_400];

function findings({ assets, hours, attempts, foundAfterMs, delivered, ids }: Outage): Findings {
  const ofHour = (hour: number) => attempts.filter((ms) => Math.floor(ms / hourMs) === hour).length;
  const begun = delivered[0] ?? 0;
  const seconds = Math.floor(((delivered.at(-1) ?? 0) - begun) / 1000) + 1;
  const perSecond = Array.from(
    { length: seconds },
    (_, s) => delivered.filter((at) => Math.floor((at - begun) / 1000) === s).length,
  );
  return {
    tables: [
      {
        title: `HTTP attempts in ${hours} hours of outage with ${assets} assets owed`,
        head: ['hour', 'attempts'],
        rows: [
          ...Array.from({ length: hours }, (_, hour) => [String(hour + 1), ofHour(hour)]),
          ['all', attempts.length],
          ['each asset by its own schedule would have made (computed)', assets * retriesWithin(hours)],
        ],
      },
      {
        title: 'After the return',
        head: ['', ''],
        rows: [
          ['seconds until a probe found it back', foundAfterMs / 1000],
          ['POSTs / distinct notifications', `${delivered.length} / ${ids}`],
          ['seconds from the first to the last', ((delivered.at(-1) ?? 0) - begun) / 1000],
          ['delivered in each second', perSecond.join(', ')],
          ['most in a second', Math.max(...perSecond)],
        ],
      },
    ],
    pictures: [
      [
        'drain.svg',
        lineChart({
          title: `${assets} assets drain after ${hours} hours of outage`,
          xLabel: 'seconds since the probe that found the endpoint back',
          yLabel: 'delivered per second',
          series: [{ name: 'delivered/s', points: perSecond.map((y, x) => ({ x, y })) }],
        }),
      ],
    ],
  };
}

function retriesWithin(hours: number): number {
  let atSeconds = 0;
  for (let made = 1; ; made++) {
    atSeconds += retrySchedule[Math.min(made, retrySchedule.length) - 1] ?? 0;
    if (atSeconds > hours * 3600) return made;
  }
}
