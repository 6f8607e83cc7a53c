import type { Pace, ReceiverBehaviour } from '../jobs.js';
import type { MeasureOptions, Round } from '../measure.js';
import type { TheatreOptions } from '../theatre.js';
import type { Row, Side } from './row.js';
import type { Target } from './target.js';

/** A shape of load, and the figures it is to reach. */
export interface Shape {
  name: string;
  about: string;
  run(stage: ShapeStage): Promise<Row[]>;
}

export interface Load {
  pace: Pace;
  clientTokens: string[];
  /** 1 by default, as are `eventsPerTurn` events in a row for one client. */
  batchSize?: number;
  eventsPerTurn?: number;
  /** So many events, however long they take, without a warm-up. */
  total?: number;
  /** As `EventsRequest.known`, with so many assets of each client. */
  known?: { prefix: string; assets: number };
  receiver?: Partial<ReceiverBehaviour>;
  warmUpAtLeastMs?: number;
}

/** One of the sides that take turns. */
export interface Variant {
  what: string;
  /** @param label tells the events of this round from all others */
  round(label: string): Promise<Round>;
}

/** What a shape is given. */
export interface ShapeStage {
  /** The service as one process of `all`. */
  service: Target;
  floor: Target;
  /** One more service, with servers of its own, ended with the shape. */
  openBeside(options: Partial<TheatreOptions>): Promise<Target>;
  load(target: Target, load: Load, options?: Omit<MeasureOptions, 'first'>): Variant;
  /** Measures the variants one after the other, round by round, each once everything has settled. */
  inTurns<Name extends string>(variants: Record<Name, Variant>): Promise<Record<Name, Side>>;
  /** Does something once for each round, each time once everything has settled. */
  eachRound(what: (label: string) => Promise<void>): Promise<void>;
}

export const callers = (publishers: number): Pace => ({ kind: 'concurrency', publishers });
export const perSecond = (requestsPerSecond: number): Pace => ({ kind: 'rate', requestsPerSecond });

/** As many as in the scenarios of the benchmark. */
export const usualClients = 50;
