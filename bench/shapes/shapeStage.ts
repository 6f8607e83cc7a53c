import type { Job } from '../jobs.js';
import { type MeasureOptions, measure, type Round } from '../measure.js';
import type { ScenarioResult } from '../report.js';
import { connectionsAtRate } from '../runScenario.js';
import { settle } from '../settle.js';
import type { StackOptions } from '../stack.js';
import type { StopList } from '../stopList.js';
import { startTheatre } from '../theatre.js';
import type { Side } from './row.js';
import type { Load, ShapeStage, Variant } from './shape.js';
import { serviceIn, type Target } from './target.js';

export interface ShapeOptions {
  rounds: number;
  warmUpMs: number;
  durationMs: number;
  /** After an abort no further round begins. */
  stopped: AbortSignal;
  theatre: StackOptions;
}

/** As in the other scenarios. */
const segments = 3;
/** The time limit of a round with a fixed number of events. */
const patienceMs = 300_000;

/**
 * @param results receives the rounds of each variant
 * @param started receives the services to stop after the shape
 */
export function shapeStage(
  shapeName: string,
  targets: { service: Target; floor: Target },
  options: ShapeOptions,
  results: ScenarioResult[],
  started: StopList,
): ShapeStage {
  const all = [targets.service, targets.floor];
  const settled = async () => {
    let isSettled = true;
    for (const { pids } of all) isSettled = (await settle(pids)) && isSettled;
    return isSettled;
  };

  const inTurns = async <Name extends string>(variants: Record<Name, Variant>) => {
    const names = Object.keys(variants) as Name[];
    const sides = names.map((name): { name: Name; rounds: Round[] } => ({ name, rounds: [] }));
    for (let n = 1; n <= options.rounds; n++) {
      for (const { name, rounds } of sides) {
        if (options.stopped.aborted) break;
        const unsettled = !(await settled());
        rounds.push({ ...(await variants[name].round(`${shapeName}-${name}-${n}`)), unsettled });
        process.stderr.write('.');
      }
    }
    const byName = {} as Record<Name, Side>;
    for (const side of sides) {
      const { name, rounds } = side;
      results.push({ name: `${shapeName}: ${name}`, what: variants[name].what, rounds });
      byName[name] = side;
    }
    return byName;
  };

  return {
    ...targets,
    load: (target, load, measureOptions) => makeVariant(target, load, options, measureOptions),
    inTurns,
    openBeside: async (theatreOptions) => {
      const theatre = await startTheatre({ ...options.theatre, ...theatreOptions });
      started.add(theatre);
      const target = serviceIn(theatre);
      all.push(target);
      return target;
    },
  };
}

function makeVariant(
  target: Target,
  load: Load,
  options: ShapeOptions,
  measureOptions: Omit<MeasureOptions, 'first'> = {},
): Variant {
  const { publisher, receiver } = target.theatre;
  const behaviour = { latencyMs: 0, closesConnections: false, refusesOneInTen: false, ...load.receiver };
  return {
    what: describe(load),
    round: (label) => {
      receiver.send({ kind: 'behave', behaviour });
      return measure(makeJob(target, load, options, label), publisher, receiver, target.pids, {
        ...measureOptions,
        first: 'nothing',
      });
    },
  };
}

export function makeJob(
  { baseUrls, accessToken }: Pick<Target, 'baseUrls' | 'accessToken'>,
  load: Load,
  { warmUpMs, durationMs }: Pick<ShapeOptions, 'warmUpMs' | 'durationMs'>,
  label: string,
): Job {
  const { pace, clientTokens, total, known } = load;
  return {
    baseUrls,
    connections: pace.kind === 'concurrency' ? pace.publishers : connectionsAtRate,
    pace,
    warmUpMs: total === undefined ? Math.max(warmUpMs, load.warmUpAtLeastMs ?? 0) : 0,
    durationMs: total === undefined ? durationMs : patienceMs,
    request: {
      kind: 'events',
      accessToken,
      clientTokens,
      batchSize: load.batchSize ?? 1,
      eventsPerTurn: load.eventsPerTurn ?? 1,
      segments,
      assets: known?.assets ?? 0,
      round: label,
      total,
      known: known?.prefix,
    },
  };
}

function describe({ pace, batchSize = 1, clientTokens, total, receiver }: Load): string {
  const sent =
    pace.kind === 'concurrency' ? `${pace.publishers} callers` : `${pace.requestsPerSecond} requests/s`;
  return [
    total === undefined ? sent : `${total} events, ${sent}`,
    batchSize === 1 ? 'single events' : `batches of ${batchSize}`,
    `${clientTokens.length} clients`,
    ...(receiver?.latencyMs ? [`answers after ${receiver.latencyMs} ms`] : []),
    ...(receiver?.closesConnections ? ['connections closed'] : []),
    ...(receiver?.refusesOneInTen ? ['one in ten refused once'] : []),
  ].join(', ');
}
