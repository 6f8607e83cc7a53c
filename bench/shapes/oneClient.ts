import { account } from '../accounting.js';
import { drain } from '../drain.js';
import type { PublishedEvents } from '../jobs.js';
import { monotonicMs } from '../monotonicMs.js';
import { publishEvents, type StudyEvent } from '../studies/publishEvents.js';
import { perSecondOfAll } from './quantity.js';
import { quantityRow, type Row, wrongOf } from './row.js';
import { callers, type Shape } from './shape.js';

const burstEvents = 500;
const clientBound = 16;

const burst: Shape = {
  name: 'burst',
  about: `${burstEvents} events of one client in one batch; the floor gets them from 64 callers`,
  async run(stage) {
    const rows: Row[] = [];
    for (const [latencyMs, eventsPerSecond] of [
      [0, 1200],
      [50, 280],
    ] as const) {
      const common = { total: burstEvents, receiver: { latencyMs } };
      const variants = {
        [`floor-${latencyMs}`]: stage.load(stage.floor, {
          ...common,
          pace: callers(64),
          clientTokens: await stage.floor.newClients(1),
        }),
        [`service-${latencyMs}`]: stage.load(stage.service, {
          ...common,
          pace: callers(1),
          batchSize: burstEvents,
          clientTokens: await stage.service.newClients(1),
        }),
      };
      // A burst is too short to warm anything up by itself.
      for (const [name, variant] of Object.entries(variants)) await variant.round(`burst-warm-up-${name}`);
      const sides = await stage.inTurns(variants);
      const side = (name: string) => ({ name, rounds: sides[`${name}-${latencyMs}`]?.rounds ?? [] });
      const [service, floor] = [side('service'), side('floor')];
      const load = `${burstEvents} events of one client, answers after ${latencyMs} ms`;
      rows.push(
        quantityRow(load, perSecondOfAll(burstEvents), service, floor, { atLeast: eventsPerSecond }),
        {
          load,
          what: 'POSTs in flight, at most',
          values: service.rounds.map((round) => round.delivery?.mostInFlight ?? Number.NaN),
          goal: latencyMs === 0 ? { atMost: clientBound } : { atLeast: clientBound, atMost: clientBound },
          beside: '',
          wrong: wrongOf(service.rounds),
        },
      );
    }
    return rows;
  },
};

const pairs = 20;
const postMs = 300;
/** When the second event comes, after the first. */
const secondAfterMs = 100;

const sameAsset: Shape = {
  name: 'same-asset',
  about: `a second event of an asset while the POST of the first takes ${postMs} ms; the floor would send both at once`,
  async run(stage) {
    const { theatre, baseUrls, accessToken } = stage.service;
    const { receiver } = theatre;
    const clientTokens = await stage.service.newClients(pairs);
    const worstMs: number[] = [];
    const wrong = { missing: 0, duplicates: 0 };
    await stage.eachRound(async (label) => {
      receiver.send({
        kind: 'behave',
        behaviour: { latencyMs: postMs, closesConnections: false, refusesOneInTen: false },
      });
      const publish = async (nth: string): Promise<PublishedEvents> => {
        const at = monotonicMs();
        const event = (i: number): StudyEvent => ({
          event_id: `${label}-${nth}-${i}`,
          client_token: clientTokens[i] ?? '',
          platform_id: label,
          segments: [`iab:${nth}`],
        });
        const notificationIds = await publishEvents(
          { baseUrl: baseUrls[0] ?? '', accessToken, batchSize: pairs, lanes: 1 },
          pairs,
          event,
        );
        return {
          notificationIds,
          at: notificationIds.map(() => at),
          down: notificationIds.map(() => false),
          assets: notificationIds.map((_, i) => `second of ${i}`),
        };
      };
      const first = await publish('first');
      await new Promise((resolve) => setTimeout(resolve, secondAfterMs));
      const second = await publish('second');
      const both = joined(first, second);
      const arrivals = await drain(receiver, both);
      const { missing, duplicates } = account(both, arrivals);
      wrong.missing += missing;
      wrong.duplicates += duplicates;
      const indexOf = new Map(arrivals.ids.map((id, i) => [id, i] as const));
      worstMs.push(
        Math.max(
          ...first.notificationIds.map((id, i) => {
            const ended = arrivals.endedAt[indexOf.get(id) ?? -1] ?? Number.NaN;
            return (arrivals.at[indexOf.get(second.notificationIds[i] ?? '') ?? -1] ?? Number.NaN) - ended;
          }),
        ),
      );
    });
    return [
      {
        load: `${pairs} assets, a second event during a POST of ${postMs} ms`,
        what: 'ms from the end of the first POST to the arrival of the second, at most',
        values: worstMs,
        goal: { atMost: 100 },
        beside: '',
        wrong,
      },
    ];
  },
};

function joined(a: PublishedEvents, b: PublishedEvents): PublishedEvents {
  return {
    notificationIds: [...a.notificationIds, ...b.notificationIds],
    at: [...a.at, ...b.at],
    down: [...a.down, ...b.down],
    assets: [...a.assets, ...b.assets],
  };
}

export const oneClientShapes: readonly Shape[] = [burst, sameAsset];
