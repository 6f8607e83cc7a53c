import type { ReceiverBehaviour } from './receiver.js';

/** A fixed number of requests at any time, or a fixed number per second, however slow the answers are. */
export type Pace = { kind: 'concurrency'; publishers: number } | { kind: 'rate'; requestsPerSecond: number };

/** A load of the benchmark. Events have three segments, and each has an asset of its own unless the load says otherwise. */
export interface Load {
  name: string;
  pace: Pace;
  /** Events in a request; 1 by default. */
  batchSize?: number;
  /** Events in a row for one client; 1 by default. */
  eventsPerTurn?: number;
  /** Clients, each with an endpoint; 50 by default. */
  clients?: number;
  /** The number of events, however long they take, without a warm-up. */
  total?: number;
  /** Every event brings only segments that are known: the service answers `none` and sends nothing. */
  isKnown?: true;
  receiver?: ReceiverBehaviour;
}

export const callers = (publishers: number): Pace => ({ kind: 'concurrency', publishers });
export const perSecond = (requestsPerSecond: number): Pace => ({ kind: 'rate', requestsPerSecond });

const singleEvents = (n: number): Load => ({ name: `single-${n}`, pace: callers(n) });
const rate = (n: number): Load => ({ name: `rate-${n}`, pace: perSecond(n) });
/** 500 events of one client in one batch, to a receiver that takes `latencyMs`. */
const burst = (latencyMs: number): Load => ({
  name: `burst-${latencyMs}ms`,
  pace: callers(1),
  batchSize: 500,
  clients: 1,
  total: 500,
  receiver: { latencyMs },
});

/** All loads, in the order of the tables. */
export const loads: readonly Load[] = [
  singleEvents(64),
  singleEvents(256),
  { name: 'batch-100', pace: callers(8), batchSize: 100 },
  { name: 'client-batch-100', pace: callers(16), batchSize: 100, eventsPerTurn: 100 },
  ...[10, 40, 100, 130, 400, 800].map(rate),
  burst(0),
  burst(50),
  { name: 'known-64', pace: callers(64), isKnown: true },
  { name: 'known-batch-100', pace: callers(16), batchSize: 100, isKnown: true },
  { name: 'slow-64', pace: callers(64), clients: 60, receiver: { latencyMs: 200 } },
  { name: 'slow-256', pace: callers(256), clients: 60, receiver: { latencyMs: 200 } },
  { name: 'refusing-64', pace: callers(64), receiver: { refusesOneInTen: true } },
  { name: 'closing-64', pace: callers(64), receiver: { closesConnections: true } },
];

/** Describes a load for a table. */
export function describe({ pace, batchSize = 1, eventsPerTurn = 1, clients = 50, ...load }: Load): string {
  const sent =
    pace.kind === 'concurrency' ? `${pace.publishers} callers` : `${pace.requestsPerSecond} requests/s`;
  return [
    load.total === undefined ? sent : `${load.total} events, ${sent}`,
    batchSize === 1 ? 'single events' : `batches of ${batchSize}`,
    ...(eventsPerTurn > 1 ? ['each of one client'] : []),
    clients === 1 ? '1 client' : `${clients} clients`,
    ...(load.isKnown ? ['nothing new'] : []),
    ...(load.receiver?.latencyMs ? [`answers after ${load.receiver.latencyMs} ms`] : []),
    ...(load.receiver?.closesConnections ? ['connections closed'] : []),
    ...(load.receiver?.refusesOneInTen ? ['one in ten refused once'] : []),
  ].join(', ');
}
