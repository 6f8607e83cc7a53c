import { cpuMsPerUnit } from '../serviceCpu.js';
import type { Quantity } from './quantity.js';
import { median, numberText, type Side, wrongOf } from './row.js';
import { perSecond, type Shape, type Variant } from './shape.js';

const eventsPerSecond = 30;

/**
 * An event for a paused client makes its asset owed and wakes no catch-up. The floor's CPU time covers receiving and sending an
 * event. For an active client the rest is the cost of workflows, and of the idle service.
 */
export const paused: Shape = {
  name: 'paused',
  about: `${eventsPerSecond} events/s for a client that is paused, beside the same for one that is not`,
  async run(stage) {
    const { operate } = stage.service.theatre.stack;
    const pace = perSecond(eventsPerSecond);
    const clientTokens = await stage.service.newClients(1);
    const [client = ''] = clientTokens;
    const load = stage.load(
      stage.service,
      { pace, clientTokens },
      {
        unit: 'answered',
        whenSent: () => operate('registration', 'resume', client),
      },
    );
    const whilePaused: Variant = {
      what: `${load.what}, paused until all are sent`,
      round: async (label) => {
        await operate('registration', 'pause', client);
        return await load.round(label);
      },
    };
    const sides = await stage.inTurns({
      floor: stage.load(stage.floor, { pace, clientTokens: await stage.floor.newClients(1) }),
      active: stage.load(stage.service, { pace, clientTokens: await stage.service.newClients(1) }),
      paused: whilePaused,
    });
    const rows = {
      load: `${eventsPerSecond} events/s for a paused client`,
      beside: [sides.paused, sides.active, sides.floor].map(costText).join('; '),
      wrong: wrongOf(sides.paused.rounds, sides.active.rounds, sides.floor.rounds),
    };
    const cost = (side: Side, i: number) => {
      const round = side.rounds[i];
      return round === undefined ? Number.NaN : cpuMsPerUnit(round);
    };
    const workflows = (i: number) => cost(sides.active, i) - cost(sides.floor, i);
    return [
      {
        ...rows,
        what: 'CPU ms an event: paused, without the share of workflows',
        values: sides.paused.rounds.map((_, i) => cost(sides.paused, i) - workflows(i)),
        goal: { atMost: 2 },
      },
      {
        ...rows,
        what: 'CPU ms an event: the share of workflows (active - floor)',
        values: sides.active.rounds.map((_, i) => workflows(i)),
      },
    ];
  },
};

/** Writes the median of each process. */
function costText({ name, rounds }: Side): string {
  const ofProcess = (process: string): Quantity => ({
    name: process,
    of: (round) => round.cpuMsPerUnit[process] ?? Number.NaN,
  });
  const processes = ['service', 'temporal', 'floor', 'redis']
    .map((process) => ({ process, ms: median(rounds.map(ofProcess(process).of)) }))
    .filter(({ ms }) => Number.isFinite(ms))
    .map(({ process, ms }) => `${process} ${numberText(ms)}`);
  return `${name} ${numberText(median(rounds.map(cpuMsPerUnit)))} (${processes.join(', ')})`;
}
