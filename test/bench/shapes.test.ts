import assert from 'node:assert/strict';
import type { Round } from '../../bench/measure.js';
import { eventAt } from '../../bench/requestSource.js';
import { shapes } from '../../bench/shapes/all.js';
import { deliveredPerSecond, perSecondOfAll } from '../../bench/shapes/quantity.js';
import { smallestSteps } from '../../bench/shapes/rates.js';
import { isReached, quantityRow, ratioRow, rowsMarkdown } from '../../bench/shapes/row.js';
import { jobOf } from '../../bench/shapes/shapeStage.js';

describe('the benchmark’s shapes of load', () => {
  describe('beside the floor', () => {
    const service = { name: 'service', rounds: [round(1000), round(900, { missing: 1 }), round(1500)] };
    const floor = { name: 'floor', rounds: [round(2000), round(1000, { duplicates: 2 }), round(3000)] };

    it('a figure is the median of the ratios of pairs that took turns', () => {
      const row = ratioRow('64 callers', deliveredPerSecond, service, floor, { atLeast: 0.5 });
      assert.deepEqual(row.values, [0.5, 0.9, 0.5]);
      assert.equal(isReached(row), true);
      assert.equal(row.beside, '1,000 / 2,000');
    });

    it('a turn without its pair, after a stopped run, counts in no ratio', () => {
      const row = ratioRow('', deliveredPerSecond, service, { name: 'floor', rounds: [round(2000)] });
      assert.deepEqual(row.values, [0.5]);
    });

    it('missing and repeated notifications are those of both sides', () => {
      const row = quantityRow('64 callers', deliveredPerSecond, service, floor);
      assert.deepEqual(row.wrong, { missing: 1, duplicates: 2 });
      assert.equal(row.beside, 'floor 2,000');
    });

    it('a round of a fixed number of events lasts until the last of them arrived', () => {
      const burst = { ...round(0, {}, 250), seconds: 0.25 };
      assert.equal(perSecondOfAll(500).of(burst), 1000);
    });
  });

  describe('against their goals', () => {
    it('reach them at the bound itself, in both directions', () => {
      const reached = (values: number[], goal: Parameters<typeof isReached>[0]['goal']) =>
        isReached({ values, ...(goal === undefined ? {} : { goal }) });
      assert.equal(reached([2.4], { atMost: 2.4 }), true);
      assert.equal(reached([2.5], { atMost: 2.4 }), false);
      assert.equal(reached([5500], { atLeast: 5000, atMost: 6000 }), true);
      assert.equal(reached([4900], { atLeast: 5000, atMost: 6000 }), false);
      assert.equal(reached([1], undefined), undefined);
    });

    it('reach none if the figure could not be measured', () => {
      assert.equal(isReached({ values: [Number.NaN], goal: { atMost: 1 } }), false);
      assert.equal(isReached({ values: [], goal: { atLeast: 1 } }), false);
    });

    it('say so in a table', () => {
      const beside = 'floor 2';
      const wrong = { missing: 0, duplicates: 3 };
      const row = { load: 'burst', what: 'in flight', beside, wrong };
      const lines = rowsMarkdown([
        { ...row, values: [16], goal: { atLeast: 16, atMost: 16 } },
        { ...row, values: [1, 2, 4], goal: { atMost: 1.5 } },
        { ...row, values: [1234.4] },
      ]).split('\n');
      assert.deepEqual(lines.slice(2), [
        '| burst | in flight | 16 | 16 | yes | floor 2 | 0 | 3 |',
        '| burst | in flight | 1 / **2** / 4 | at most 1.50 | **no** | floor 2 | 0 | 3 |',
        '| burst | in flight | 1,234 |  |  | floor 2 | 0 | 3 |',
      ]);
    });

    it('rise if no step is below 1, judged within a round', () => {
      const steps = smallestSteps([
        [1, 2],
        [2, 1],
        [3, 4],
      ]);
      assert.deepEqual(steps, [1.5, 0.5]);
    });
  });

  it('each have a name that is valid in the ids of their events', () => {
    const names = shapes.map((shape) => shape.name);
    assert.equal(new Set(names).size, names.length);
    for (const name of names) assert.match(name, /^[a-z0-9-]{1,40}$/);
  });

  describe('events', () => {
    const times = { warmUpMs: 2000, durationMs: 10_000 };
    const target = { baseUrls: ['http://127.0.0.1:1'], accessToken: 'token' };
    const requestOf = (load: Omit<Parameters<typeof jobOf>[1], 'pace' | 'clientTokens'>) => {
      const pace = { kind: 'concurrency', publishers: 16 } as const;
      const job = jobOf(target, { pace, clientTokens: ['A', 'B'], ...load }, times, 'round');
      assert.ok(job.request.kind === 'events');
      return { job, request: job.request };
    };
    const clientsOf = (request: Parameters<typeof eventAt>[0], count: number) =>
      Array.from({ length: count }, (_, n) => eventAt(request, n).client_token).join('');

    it('go to the clients one by one, or several in a row', () => {
      assert.equal(clientsOf(requestOf({}).request, 5), 'ABABA');
      assert.equal(clientsOf(requestOf({ eventsPerTurn: 3 }).request, 8), 'AAABBBAA');
    });

    it('each bring something new, or only known segments', () => {
      const fresh = requestOf({}).request;
      assert.notDeepEqual(eventAt(fresh, 0).segments, eventAt(fresh, 4).segments);
      const known = requestOf({ known: { prefix: 'known', assets: 2 } }).request;
      const { event_id: id, ...first } = eventAt(known, 1);
      const { event_id: again, ...same } = eventAt(known, 5);
      assert.deepEqual(same, first);
      assert.notEqual(again, id);
    });

    it('in a fixed number have no warm-up', () => {
      assert.equal(requestOf({ total: 500 }).job.warmUpMs, 0);
      assert.equal(requestOf({ warmUpAtLeastMs: 6000 }).job.warmUpMs, 6000);
    });
  });
});

function round(
  perSecond: number,
  wrong: { missing?: number; duplicates?: number } = {},
  drainedAfterMs = 0,
): Round {
  const nothing = { p50: 0, p99: 0, max: 0 };
  return {
    seconds: 10,
    requestsPerSecond: perSecond,
    answer: nothing,
    delivery: {
      perSecond,
      latency: nothing,
      accounting: { missing: 0, superseded: 0, duplicates: 0, unannounced: 0, ...wrong },
      mostInFlight: 1,
      drainedAfterMs,
    },
    cpuMsPerUnit: {},
    cpuShare: {},
    rssMb: {},
    refusals: {},
    givenUp: 0,
    unsettled: false,
  };
}
