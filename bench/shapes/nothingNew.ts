import { eventAt } from '../requestSource.js';
import { publishEvents } from '../studies/publishEvents.js';
import { answeredPerSecond, deliveredPerSecond } from './quantity.js';
import { medianText, ratios, type Side, wrongOf } from './row.js';
import { callers, type Shape, usualClients } from './shape.js';
import { jobOf } from './shapeStage.js';

const batchSize = 100;
const assetsOfEach = 20;

/** Events with only known segments: the service answers `none` and sends nothing. */
export const nothingNew: Shape = {
  name: 'nothing-new',
  about: `events that bring nothing new: 64 callers, and 16 with batches of ${batchSize}`,
  async run(stage) {
    const { service } = stage;
    const clientTokens = await service.newClients(usualClients);
    const load = { clientTokens, known: { prefix: 'known', assets: assetsOfEach } };
    const { request } = jobOf(
      service,
      { ...load, pace: callers(1) },
      { warmUpMs: 0, durationMs: 0 },
      'first',
    );
    if (request.kind !== 'events') throw new Error('a load has events');
    await publishEvents(
      { baseUrl: service.baseUrls[0] ?? '', accessToken: service.accessToken, batchSize, lanes: 2 },
      usualClients * assetsOfEach,
      (i) => ({ ...eventAt(request, i), notify: false }),
    );
    const { floor, single, batches } = await stage.inTurns({
      floor: stage.load(stage.floor, {
        pace: callers(64),
        clientTokens: await stage.floor.newClients(usualClients),
      }),
      single: stage.load(service, { ...load, pace: callers(64) }, { unit: 'answered' }),
      batches: stage.load(service, { ...load, pace: callers(16), batchSize }, { unit: 'answered' }),
    });
    const perSecond = (side: Side) => side.rounds.map(answeredPerSecond.of);
    const floors = floor.rounds.map(deliveredPerSecond.of);
    return [
      {
        load: 'nothing new, 64 callers',
        what: 'events/s / delivered/s of the floor',
        values: ratios(perSecond(single), floors),
        goal: { atLeast: 1.2 },
        beside: `${medianText(single, answeredPerSecond)} / ${medianText(floor, deliveredPerSecond)}`,
        wrong: wrongOf(single.rounds, floor.rounds),
      },
      {
        load: `nothing new, 16 callers, batches of ${batchSize}`,
        what: 'events/s',
        values: perSecond(batches).map((requests) => requests * batchSize),
        goal: { atLeast: 20_000 },
        beside: `floor ${medianText(floor, deliveredPerSecond)}`,
        wrong: wrongOf(batches.rounds),
      },
    ];
  },
};
