import { perSecondOfAll } from './quantity.js';
import { countWrong, quantityRow, type Row } from './row.js';
import { callers, type Shape, type ShapeStage } from './shape.js';

const events = 500;
/** The default of `MAX_IN_FLIGHT`. */
const clientBound = 16;

export const burst: Shape = {
  name: 'burst',
  about: `${events} events of one client in one batch, answers at once and in 50 ms; the floor gets them from 64 callers`,
  run: async (stage) => [
    ...(await measureBurst(stage, 0, 1200)),
    ...(await measureBurst(stage, 50, 280, clientBound)),
  ],
};

async function measureBurst(
  stage: ShapeStage,
  latencyMs: number,
  eventsPerSecond: number,
  inFlight?: number,
): Promise<Row[]> {
  const common = { total: events, receiver: { latencyMs } };
  const names = { floor: `floor-${latencyMs}`, service: `service-${latencyMs}` };
  const variants = {
    [names.floor]: stage.load(stage.floor, {
      ...common,
      pace: callers(64),
      clientTokens: await stage.floor.newClients(1),
    }),
    [names.service]: stage.load(stage.service, {
      ...common,
      pace: callers(1),
      batchSize: events,
      clientTokens: await stage.service.newClients(1),
    }),
  };
  // A burst is too short to be its own warm-up.
  for (const [name, variant] of Object.entries(variants)) await variant.round(`burst-warm-up-${name}`);
  const sides = await stage.inTurns(variants);
  const side = (name: keyof typeof names) => ({ name, rounds: sides[names[name]]?.rounds ?? [] });
  const service = side('service');
  const load = `${events} events of one client, answers after ${latencyMs} ms`;
  const rows = [
    quantityRow(load, perSecondOfAll(events), service, side('floor'), { atLeast: eventsPerSecond }),
  ];
  if (inFlight === undefined) return rows;
  return [
    ...rows,
    {
      load,
      what: 'POSTs in flight, at most',
      values: service.rounds.map((round) => round.delivery?.mostInFlight ?? Number.NaN),
      goal: { atLeast: inFlight, atMost: inFlight },
      beside: '',
      wrong: countWrong(service.rounds),
    },
  ];
}
