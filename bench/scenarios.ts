import type { Pace } from './jobs.js';

export interface EventsScenario {
  kind: 'events';
  name: string;
  pace: Pace;
  batchSize: number;
  endpoints: number;
  /** One more endpoint refuses connections; in every other second it gets a fifth of the events. */
  oneDown: boolean;
  /** Publishes through clients/node, which puts concurrent events into shared calls. Otherwise each request has its own connection. */
  throughClient: boolean;
}

export type Scenario =
  | EventsScenario
  | { kind: 'tokens'; name: string; publishers: number }
  | { kind: 'registrations'; name: string; publishers: number };

const events = (
  name: string,
  pace: Pace,
  more: Partial<Pick<EventsScenario, 'batchSize' | 'endpoints' | 'oneDown' | 'throughClient'>> = {},
): EventsScenario => ({
  kind: 'events',
  name,
  pace,
  batchSize: 1,
  endpoints: 50,
  oneDown: false,
  throughClient: false,
  ...more,
});

const publishers = (n: number): Pace => ({ kind: 'concurrency', publishers: n });
const perSecond = (n: number): Pace => ({ kind: 'rate', requestsPerSecond: n });

/** The scenarios of `npm run bench` if none is named, in this order. */
export const scenarios: readonly Scenario[] = [
  { kind: 'tokens', name: 'tokens', publishers: 64 },
  { kind: 'registrations', name: 'registrations', publishers: 64 },
  events('single-64', publishers(64)),
  events('single-256', publishers(256)),
  events('batch-100', publishers(8), { batchSize: 100 }),
  events('client-64', publishers(64), { throughClient: true }),
  events('rate-10', perSecond(10)),
  events('rate-100', perSecond(100)),
  events('rate-400', perSecond(400)),
  events('one-down', publishers(64), { endpoints: 49, oneDown: true }),
];

/** The scenarios of `curve`: throughput over load. */
export const curve: readonly EventsScenario[] = [1, 4, 16, 64, 128, 256].map((n) =>
  events(`curve-${n}`, publishers(n)),
);
