import { request as send } from 'undici';
import { makeEvent } from '../requestSource.js';
import { answeredPerSecond, deliveredPerSecond } from './quantity.js';
import { countWrong, medianText, ratios, type Side } from './row.js';
import { callers, type Shape, usualClients } from './shape.js';
import { makeJob } from './shapeStage.js';
import type { Target } from './target.js';

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
    const { request } = makeJob(
      service,
      { ...load, pace: callers(1) },
      { warmUpMs: 0, durationMs: 0 },
      'first',
    );
    if (request.kind !== 'events') throw new Error('a load has events');
    const events = Array.from({ length: usualClients * assetsOfEach }, (_, i) => makeEvent(request, i));
    await makeKnown(service, events);
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
        wrong: countWrong(single.rounds, floor.rounds),
      },
      {
        load: `nothing new, 16 callers, batches of ${batchSize}`,
        what: 'events/s',
        values: perSecond(batches).map((requests) => requests * batchSize),
        goal: { atLeast: 20_000 },
        beside: `floor ${medianText(floor, deliveredPerSecond)}`,
        wrong: countWrong(batches.rounds),
      },
    ];
  },
};

/** Publishes events that make no notification. @throws if one is refused */
async function makeKnown(
  { baseUrls, accessToken }: Target,
  events: readonly ReturnType<typeof makeEvent>[],
): Promise<void> {
  for (let i = 0; i < events.length; i += batchSize) {
    const batch = events.slice(i, i + batchSize).map((event) => ({ ...event, notify: false }));
    const { statusCode, body } = await send(`${baseUrls[0]}/enrichments`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${accessToken}` },
      body: JSON.stringify({ events: batch }),
    });
    const text = await body.text();
    const results = statusCode === 202 ? (JSON.parse(text) as { results: { code?: string }[] }).results : [];
    if (results.length !== batch.length || results.some(({ code }) => code !== undefined)) {
      throw new Error(`not accepted: ${statusCode} ${text.slice(0, 300)}`);
    }
  }
}
