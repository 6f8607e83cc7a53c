import { setClient } from '../../src/redis/records/clients.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import type { Theatre } from '../theatre.js';
import { type Endpoint, startEndpoint } from './endpoint.js';
import { publishEvents } from './publishEvents.js';
import type { Cell, Stage, Study } from './study.js';
import { until } from './until.js';

type Size = 'maxPerSecond' | 'maxInFlight' | 'answerMs' | 'seconds';
type Sizes = Readonly<Record<Size, number>>;

const workerCounts = [1, 2, 4];

/** Measures a client's bounds at its endpoint, with several workers. */
export const bounds: Study<Size> = {
  name: 'bounds',
  about: `max_per_second and max_in_flight with ${workerCounts.join(', ')} workers, seen from the endpoint.`,
  sizes: {
    maxPerSecond: [50, 'of the first client'],
    maxInFlight: [8, 'of the second client'],
    answerMs: [200, 'that the second endpoint takes for each answer'],
    seconds: [15, 'of work for each client within its bound'],
  },
  async run(sizes, stage) {
    const rates: Cell[][] = [];
    const places: Cell[][] = [];
    for (const workers of workerCounts) {
      stage.say(`${workers} workers`);
      const theatre = await stage.open({ split: true, workers });
      rates.push([workers, ...(await rateOf(theatre, sizes, stage))]);
      places.push([workers, ...(await placesOf(theatre, sizes, stage))]);
    }
    return {
      tables: [
        {
          title: `max_per_second ${sizes.maxPerSecond}`,
          head: [
            'workers',
            'POSTs',
            'most in any second',
            'per second over all',
            'most / bound',
            'mean / bound',
          ],
          rows: rates,
        },
        {
          title: `max_in_flight ${sizes.maxInFlight}, answers after ${sizes.answerMs} ms`,
          head: [
            'workers',
            'POSTs',
            'most at one time',
            'at one time on average',
            'most / bound',
            'mean / bound',
          ],
          rows: places,
        },
      ],
    };
  },
};

async function rateOf(theatre: Theatre, sizes: Sizes, stage: Stage): Promise<Cell[]> {
  const endpoint = await deliver(
    theatre,
    stage,
    { maxPerSecond: sizes.maxPerSecond },
    0,
    sizes.maxPerSecond * sizes.seconds,
  );
  const at = endpoint.arrivals.map((a) => a.at).sort((a, b) => a - b);
  let most = 0;
  for (let last = 0, first = 0; last < at.length; last++) {
    while ((at[last] ?? 0) - (at[first] ?? 0) >= 1000) first++;
    most = Math.max(most, last - first + 1);
  }
  const mean = ((at.length - 1) * 1000) / ((at.at(-1) ?? 0) - (at[0] ?? 0));
  return [at.length, most, mean, most / sizes.maxPerSecond, mean / sizes.maxPerSecond];
}

async function placesOf(theatre: Theatre, sizes: Sizes, stage: Stage): Promise<Cell[]> {
  const { maxInFlight, answerMs, seconds } = sizes;
  const count = Math.round((maxInFlight * seconds * 1000) / answerMs);
  const endpoint = await deliver(theatre, stage, { maxInFlight }, answerMs, count);
  const at = endpoint.arrivals.map((a) => a.at).sort((a, b) => a - b);
  const mean = (at.length * answerMs) / ((at.at(-1) ?? 0) + answerMs - (at[0] ?? 0));
  return [at.length, endpoint.mostInFlight, mean, endpoint.mostInFlight / maxInFlight, mean / maxInFlight];
}

/** Publishes at twice the client's rate: every worker makes first attempts, and catch-up makes the rest. */
async function deliver(
  { stack, cast }: Theatre,
  stage: Stage,
  bound: { maxPerSecond?: number; maxInFlight?: number },
  answerMs: number,
  count: number,
): Promise<Endpoint> {
  const endpoint = await startEndpoint();
  endpoint.answer = { status: 204, afterMs: answerMs };
  const [client = ''] = await cast.newRegisteredClients(1, endpoint.url);
  await setClient(stack.db, client, bound);
  stage.say(`  ${count} events, ${JSON.stringify(bound)}`);
  const mayPerSecond = bound.maxPerSecond ?? ((bound.maxInFlight ?? 0) * 1000) / answerMs;
  await publishEvents(
    {
      baseUrl: stack.baseUrl,
      accessToken: cast.platform.accessToken,
      batchSize: 2,
      lanes: 8,
      perSecond: 2 * mayPerSecond,
    },
    count,
    (i) => ({ client_token: client, platform_id: `video-${i}`, segments: [`iab:${i}`] }),
  );
  await until('all are delivered', 120_000, async () => {
    return endpoint.arrivals.length >= count && (await getEndpoint(stack.db, client)).owed === 0;
  });
  await endpoint.close();
  return endpoint;
}
