import { answerP50, arrivalP50, arrivalP99, cores } from './quantity.js';
import { countWrong, median, numberText, quantityRow, type Row, ratioRow, type Side } from './row.js';
import { perSecond, type Shape, type ShapeStage, usualClients, type Variant } from './shape.js';

const coreRates = [10, 40, 130, 400, 800];

const coresOverRate: Shape = {
  name: 'cores',
  about: `cores in use at ${coreRates.join(', ')} events/s`,
  async run(stage) {
    const sides = await stage.inTurns(await variantsAt(stage, coreRates));
    const service = coreRates.map((rate) => pickSide(sides, 'service', rate));
    const floor = coreRates.map((rate) => pickSide(sides, 'floor', rate));
    const at = (rate: number) => pickSide(sides, 'service', rate);
    const list = (of: readonly Side[]) =>
      of.map((side) => numberText(median(side.rounds.map(cores.of)))).join(', ');
    return [
      {
        load: `${coreRates.join(', ')} events/s`,
        what: 'cores, the smallest step: a rate / the rate below it',
        values: smallestSteps(service.map((side) => side.rounds.map(cores.of))),
        goal: { atLeast: 1 },
        beside: `service ${list(service)}; floor ${list(floor)}`,
        wrong: countWrong(...[...service, ...floor].map((side) => side.rounds)),
      },
      ratioRow('40 events/s', cores, at(40), at(800), { atMost: 0.65 }),
      ratioRow('130 events/s', cores, at(130), at(800), { atMost: 0.8 }),
    ];
  },
};

/**
 * Returns the smallest ratio of a value to the value of the step before, for each round: 1 or more if the values rise.
 * @param steps the values of each step, one for each round
 */
function smallestSteps(steps: readonly (readonly number[])[]): number[] {
  const rounds = Math.min(...steps.map((values) => values.length));
  return Array.from({ length: rounds }, (_, round) =>
    Math.min(
      ...steps.slice(1).map((values, i) => (values[round] ?? Number.NaN) / (steps[i]?.[round] ?? Number.NaN)),
    ),
  );
}

const p99GoalsMs: readonly (readonly [perSecond: number, ms: number])[] = [
  [10, 25],
  [100, 50],
  [400, 60],
];

const latency: Shape = {
  name: 'latency',
  about: 'accept to arrival, and the answer, at 10, 100 and 400 events/s',
  async run(stage) {
    const rows: Row[] = [];
    const sides = await stage.inTurns(
      await variantsAt(
        stage,
        p99GoalsMs.map(([rate]) => rate),
      ),
    );
    for (const [rate, p99Ms] of p99GoalsMs) {
      const load = `${rate} events/s`;
      const service = pickSide(sides, 'service', rate);
      const floor = pickSide(sides, 'floor', rate);
      rows.push(
        quantityRow(load, arrivalP50, service, floor, { atMost: 8 }),
        quantityRow(load, arrivalP99, service, floor, { atMost: p99Ms }),
        quantityRow(load, answerP50, service, floor, rate === 10 ? { atMost: 6 } : undefined),
      );
    }
    return rows;
  },
};

/** Measures the floor, then the service, at each rate. */
async function variantsAt(stage: ShapeStage, rates: readonly number[]): Promise<Record<string, Variant>> {
  const variants: Record<string, Variant> = {};
  const clientTokens = {
    floor: await stage.floor.newClients(usualClients),
    service: await stage.service.newClients(usualClients),
  };
  for (const rate of rates) {
    for (const name of ['floor', 'service'] as const) {
      variants[`${name}-${rate}`] = stage.load(stage[name], {
        pace: perSecond(rate),
        clientTokens: clientTokens[name],
      });
    }
  }
  return variants;
}

function pickSide(sides: Record<string, Side>, name: 'floor' | 'service', rate: number): Side {
  return { name: `${name} at ${rate}/s`, rounds: sides[`${name}-${rate}`]?.rounds ?? [] };
}

export const rateShapes: readonly Shape[] = [coresOverRate, latency];
