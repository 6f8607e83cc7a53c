import type { Job } from './jobs.js';
import { usualBehaviour } from './jobs.js';
import { describe, type Load } from './loads.js';
import { measure, type Round } from './measure.js';
import { knownAssets } from './requestSource.js';
import { makeKnown, type Target, type Theatre } from './theatre.js';

/** The rounds of one load, and of the floor in turn with them. */
export interface LoadResult {
  name: string;
  what: string;
  rounds: Round[];
  floor?: Round[];
}

export interface RoundOptions {
  rounds: number;
  warmUpMs: number;
  durationMs: number;
  /** After an abort no further round begins. */
  stopped: AbortSignal;
  onRound: () => void;
}

/** The time limit of a round with a fixed number of events. */
const patienceMs = 300_000;
const usualClients = 50;

/** Measures a load of the service, and in turn with it the floor's, if the theatre has one. */
export async function runLoad(load: Load, theatre: Theatre, options: RoundOptions): Promise<LoadResult> {
  const { service, floor, publisher, receiver } = theatre;
  receiver.send({ kind: 'behave', behaviour: { ...usualBehaviour, ...load.receiver } });
  const { total } = load;
  const clientTokens = await service.newClients(load.clients ?? usualClients);
  const job: Omit<Job, 'baseUrls' | 'accessToken' | 'round'> = {
    pace: load.pace,
    warmUpMs: total === undefined ? options.warmUpMs : 0,
    durationMs: total === undefined ? options.durationMs : patienceMs,
    clientTokens,
    batchSize: load.batchSize ?? 1,
    eventsPerTurn: load.eventsPerTurn ?? 1,
    total,
    isKnown: load.isKnown ?? false,
  };
  if (load.isKnown) await makeKnown(service, { ...job, round: 'known' }, clientTokens.length * knownAssets);
  const floorJob = { ...job, isKnown: false };
  const round = ({ baseUrls, platformToken, pids }: Target, what: typeof job, label: string) =>
    measure({ ...what, baseUrls, accessToken: platformToken, round: label }, publisher, receiver, pids);

  const result: LoadResult = {
    name: load.name,
    what: describe(load),
    rounds: [],
    ...(floor && { floor: [] }),
  };
  // A fixed number of events is too short to be its own warm-up.
  if (total !== undefined) await round(service, job, `${load.name}-warm-up`);
  for (let n = 1; n <= options.rounds && !options.stopped.aborted; n++) {
    if (floor) {
      const floorClients = await floor.newClients(clientTokens.length);
      const label = `floor-${load.name}-${n}`;
      result.floor?.push(await round(floor, { ...floorJob, clientTokens: floorClients }, label));
    }
    result.rounds.push(await round(service, job, `${load.name}-${n}`));
    options.onRound();
  }
  return result;
}
