import type { Pace, ReceiverBehaviour } from '../jobs.js';
import type { MeasureOptions, Round } from '../measure.js';
import type { StackOptions } from '../stack.js';
import type { Row, Side } from './row.js';
import type { Target } from './target.js';

/** A shape of load, and its goals. */
export interface Shape {
  name: string;
  about: string;
  run(stage: ShapeStage): Promise<Row[]>;
}

export interface Load {
  pace: Pace;
  clientTokens: string[];
  /** 1 by default, like `eventsPerTurn`: events in a row for one client. */
  batchSize?: number;
  eventsPerTurn?: number;
  /** The number of events, however long they take, without a warm-up. */
  total?: number;
  /** Like `EventsRequest.known`, with this many assets of each client. */
  known?: { prefix: string; assets: number };
  receiver?: Partial<ReceiverBehaviour>;
  warmUpAtLeastMs?: number;
}

/** One side of a comparison in turns. */
export interface Variant {
  what: string;
  /** @param label part of the ids of this round's events */
  round(label: string): Promise<Round>;
}

/** The dependencies of a shape. */
export interface ShapeStage {
  /** The service as one process of `all`. */
  service: Target;
  floor: Target;
  /** Starts one more service with its own servers; the service ends with the shape. */
  openBeside(options: Partial<StackOptions>): Promise<Target>;
  load(target: Target, load: Load, options?: Omit<MeasureOptions, 'first'>): Variant;
  /** Measures the variants in turn, round by round, each after everything has settled. */
  inTurns<Name extends string>(variants: Record<Name, Variant>): Promise<Record<Name, Side>>;
}

export const callers = (publishers: number): Pace => ({ kind: 'concurrency', publishers });
export const perSecond = (requestsPerSecond: number): Pace => ({ kind: 'rate', requestsPerSecond });

/** As in the scenarios of the benchmark. */
export const usualClients = 50;
