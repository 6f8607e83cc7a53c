import { coresInUse, cpuMsPerUnit, type Round } from '../measure.js';

/** One figure of a round. */
export interface Quantity {
  name: string;
  of(round: Round): number;
}

export const deliveredPerSecond: Quantity = {
  name: 'delivered/s',
  of: (round) => round.delivery?.perSecond ?? Number.NaN,
};

export const answeredPerSecond: Quantity = {
  name: 'answered/s',
  of: (round) => round.requestsPerSecond,
};

export const cpuMs: Quantity = { name: 'CPU ms an event', of: cpuMsPerUnit };

export const cores: Quantity = { name: 'cores', of: coresInUse };

export const answerP50: Quantity = { name: 'answer p50, ms', of: (round) => round.answer.p50 };

export const arrivalP50: Quantity = {
  name: 'accept to arrival p50, ms',
  of: (round) => round.delivery?.latency.p50 ?? Number.NaN,
};

export const arrivalP99: Quantity = {
  name: 'accept to arrival p99, ms',
  of: (round) => round.delivery?.latency.p99 ?? Number.NaN,
};

/** Arrivals per second of a fixed number of events, from the first request to the last arrival. */
export function perSecondOfAll(total: number): Quantity {
  return { name: 'events/s, all of them', of: (round) => total / secondsUntilAllArrived.of(round) };
}

const secondsUntilAllArrived: Quantity = {
  name: 'seconds until all have arrived',
  of: (round) => round.seconds + (round.delivery?.drainedAfterMs ?? Number.NaN) / 1000,
};
