import type { Job, Pace } from './jobs.js';
import { measure, type Round } from './measure.js';
import { knownPids } from './processUsage.js';
import type { ScenarioResult } from './report.js';
import type { Theatre } from './theatre.js';

interface EventsScenario {
  kind: 'events';
  name: string;
  pace: Pace;
  batchSize: number;
  endpoints: number;
}

interface TokensScenario {
  kind: 'tokens';
  name: string;
  publishers: number;
}

export type Scenario = EventsScenario | TokensScenario;

const events = (name: string, pace: Pace, batchSize = 1): EventsScenario => ({
  kind: 'events',
  name,
  pace,
  batchSize,
  endpoints: 50,
});

const publishers = (n: number): Pace => ({ kind: 'concurrency', publishers: n });
const perSecond = (n: number): Pace => ({ kind: 'rate', requestsPerSecond: n });

/** The scenarios of `npm run bench` if none is named, in this order. */
export const scenarios: readonly Scenario[] = [
  { kind: 'tokens', name: 'tokens', publishers: 64 },
  events('single-64', publishers(64)),
  events('single-256', publishers(256)),
  events('batch-100', publishers(8), 100),
  events('rate-10', perSecond(10)),
  events('rate-100', perSecond(100)),
  events('rate-400', perSecond(400)),
];

interface RoundOptions {
  rounds: number;
  warmUpMs: number;
  durationMs: number;
  /** After an abort no further round begins. */
  stopped: AbortSignal;
  onRound: () => void;
}

export function runScenario(
  scenario: Scenario,
  theatre: Theatre,
  options: RoundOptions,
): Promise<ScenarioResult> {
  return scenario.kind === 'events'
    ? runEvents(scenario, theatre, options)
    : runTokens(scenario, theatre, options);
}

/** Enough connections, so that no request at a fixed rate waits for one. */
export const connectionsAtRate = 512;

async function runEvents(
  scenario: EventsScenario,
  theatre: Theatre,
  options: RoundOptions,
): Promise<ScenarioResult> {
  const { cast, stack, publisher, receiver, pids } = theatre;
  const { pace, batchSize, endpoints } = scenario;
  const clientTokens = await cast.newRegisteredClients(endpoints, theatre.receiverUrl);
  const rounds = await repeat(options, (round) =>
    measure(
      {
        baseUrls: stack.baseUrls,
        connections: pace.kind === 'concurrency' ? pace.publishers : connectionsAtRate,
        pace,
        warmUpMs: options.warmUpMs,
        durationMs: options.durationMs,
        request: {
          kind: 'events',
          accessToken: cast.platformToken,
          clientTokens,
          batchSize,
          segments: 3,
          assets: 0,
          round: `${scenario.name}-${round}`,
        },
      },
      publisher,
      receiver,
      pids,
    ),
  );
  const load =
    pace.kind === 'concurrency' ? `${pace.publishers} publishers` : `${pace.requestsPerSecond} requests/s`;
  const size = batchSize === 1 ? 'single events' : `batches of ${batchSize}`;
  return { name: scenario.name, what: `${size}, ${load}, ${endpoints} endpoints`, rounds };
}

async function runTokens(
  scenario: TokensScenario,
  theatre: Theatre,
  options: RoundOptions,
): Promise<ScenarioResult> {
  const { cast, stack, publisher, pids, bareKoa } = theatre;
  const job = (baseUrls: string[]): Job => ({
    baseUrls,
    connections: scenario.publishers,
    pace: { kind: 'concurrency', publishers: scenario.publishers },
    warmUpMs: options.warmUpMs,
    durationMs: options.durationMs,
    request: { kind: 'token', account: cast.publisher, scope: 'push_notifications' },
  });
  const bareRounds: Round[] = [];
  const barePids = knownPids({ 'bare Koa': bareKoa.pid, redis: pids.redis, publisher: publisher.pid });
  const rounds = await repeat(options, async () => {
    bareRounds.push(await measure(job([bareKoa.baseUrl]), publisher, undefined, barePids));
    return measure(job(stack.baseUrls), publisher, undefined, pids);
  });
  return {
    name: scenario.name,
    what: `POST /oauth/access_token, ${scenario.publishers} at a time`,
    rounds,
    beside: { what: 'bare Koa endpoint with one Redis SET, in turn', rounds: bareRounds },
  };
}

async function repeat(options: RoundOptions, round: (n: number) => Promise<Round>): Promise<Round[]> {
  const rounds: Round[] = [];
  for (let n = 1; n <= options.rounds && !options.stopped.aborted; n++) {
    rounds.push(await round(n));
    options.onRound();
  }
  return rounds;
}
