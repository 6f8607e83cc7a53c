import { request } from 'undici';
import { secondsUntilAllArrived } from './quantity.js';
import { quantityRow, wrongOf } from './row.js';
import { callers, type Shape, usualClients, type Variant } from './shape.js';

const events = 2000;
const answerMs = 2000;
/** A failed POST is repeated after 5 to 5.5 s. */
const quietMs = 10_000;

/** Clients of one origin share its connections. Waiting for a connection must not count as a failure of the receiver. */
export const origin: Shape = {
  name: 'origin',
  about: `${events} events for ${usualClients} clients on one origin that takes ${answerMs / 1000} s`,
  async run(stage) {
    const load = `${usualClients} clients on one origin that takes ${answerMs / 1000} s, ${events} events`;
    const { adminUrl } = stage.service.theatre.stack;
    const becameFailing: number[] = [];
    const common = { total: events, receiver: { latencyMs: answerMs } };
    const onService = stage.load(
      stage.service,
      {
        ...common,
        pace: callers(4),
        batchSize: 100,
        clientTokens: await stage.service.newClients(usualClients),
      },
      { quietMs },
    );
    const counted: Variant = {
      what: onService.what,
      round: async (label) => {
        const before = await timesFailing(adminUrl);
        const round = await onService.round(label);
        becameFailing.push((await timesFailing(adminUrl)) - before);
        return round;
      },
    };
    const { floor, service } = await stage.inTurns({
      floor: stage.load(stage.floor, {
        ...common,
        pace: callers(64),
        clientTokens: await stage.floor.newClients(usualClients),
      }),
      service: counted,
    });
    const wrong = wrongOf(service.rounds);
    return [
      {
        load,
        what: 'events received twice',
        values: service.rounds.map((round) => round.delivery?.accounting.duplicates ?? Number.NaN),
        goal: { atMost: 0 },
        beside: '',
        wrong,
      },
      {
        load,
        what: 'endpoints that became failing',
        values: becameFailing,
        goal: { atMost: 0 },
        beside: '',
        wrong,
      },
      quantityRow(load, secondsUntilAllArrived, service, floor),
    ];
  },
};

const metric = 'asset_update_endpoint_state_changes_total';

/** Returns how often an endpoint became `failing` since the service started. @throws if the metric is missing */
async function timesFailing(adminUrl: string): Promise<number> {
  const { body } = await request(`${adminUrl}/metrics`);
  const text = await body.text();
  if (!text.includes(`# TYPE ${metric} `)) throw new Error(`the service has no metric ${metric}`);
  return Number(new RegExp(`^${metric}\\{state="failing"\\} (\\d+)`, 'm').exec(text)?.[1] ?? 0);
}
