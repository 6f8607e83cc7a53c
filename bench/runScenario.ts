import { freePort } from '../local/ports.js';
import type { Job } from './jobs.js';
import { measure, type Round } from './measure.js';
import type { ScenarioResult } from './report.js';
import type { EventsScenario, Scenario } from './scenarios.js';
import type { Theatre } from './theatre.js';

export interface RoundOptions {
  rounds: number;
  warmUpMs: number;
  durationMs: number;
  assets: number;
  segments: number;
  /** After an abort no further round begins. */
  stopped: AbortSignal;
  onRound: () => void;
}

/** Runs all rounds of one scenario. */
export function runScenario(
  scenario: Scenario,
  theatre: Theatre,
  options: RoundOptions,
): Promise<ScenarioResult> {
  switch (scenario.kind) {
    case 'events':
      return runEvents(scenario, theatre, options);
    case 'tokens':
      return runTokens(scenario, theatre, options);
    case 'registrations':
      return runRegistrations(scenario, theatre, options);
  }
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
  const down = scenario.oneDown
    ? await cast.newRegisteredClients(1, `http://127.0.0.1:${await freePort()}`)
    : [];
  const rounds = await repeat(options, (round) =>
    measure(
      {
        baseUrls: stack.baseUrls,
        connections: pace.kind === 'concurrency' ? pace.publishers : connectionsAtRate,
        pace,
        warmUpMs: options.warmUpMs,
        durationMs: options.durationMs,
        ...(scenario.throughClient && { through: cast.platform }),
        request: {
          kind: 'events',
          accessToken: cast.platform.accessToken,
          clientTokens,
          ...(down[0] === undefined ? {} : { downClientToken: down[0] }),
          batchSize,
          segments: options.segments,
          assets: options.assets,
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
  const single = scenario.throughClient ? 'single events through clients/node' : 'single events';
  const size = batchSize === 1 ? single : `batches of ${batchSize}`;
  const sick = scenario.oneDown ? ', in every other second one more refuses and gets a fifth' : '';
  return { name: scenario.name, what: `${size}, ${load}, ${endpoints} endpoints${sick}`, rounds };
}

async function runTokens(
  scenario: Extract<Scenario, { kind: 'tokens' }>,
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
    request: { kind: 'token', accounts: [cast.publisher], scope: 'push_notifications' },
  });
  const bareRounds: Round[] = [];
  const barePids = { 'bare Koa': bareKoa.pid, redis: pids.redis, publisher: publisher.pid };
  const rounds = await repeat(options, async () => {
    bareRounds.push(await measure(job([bareKoa.baseUrl]), publisher, undefined, known(barePids)));
    return measure(job(stack.baseUrls), publisher, undefined, pids);
  });
  return {
    name: scenario.name,
    what: `POST /oauth/access_token, ${scenario.publishers} at a time`,
    rounds,
    beside: { what: 'bare Koa endpoint with one Redis SET, in turn', rounds: bareRounds },
  };
}

/** Clients for one round, which ends after the last: some seconds. */
const registrationsPerRound = 3000;

async function runRegistrations(
  scenario: Extract<Scenario, { kind: 'registrations' }>,
  theatre: Theatre,
  options: RoundOptions,
): Promise<ScenarioResult> {
  const { cast, stack, publisher, pids } = theatre;
  const rounds = await repeat(options, async () =>
    measure(
      {
        baseUrls: stack.baseUrls,
        connections: scenario.publishers,
        pace: { kind: 'concurrency', publishers: scenario.publishers },
        warmUpMs: 0,
        durationMs: options.durationMs,
        request: {
          kind: 'registration',
          accessToken: cast.publisher.accessToken,
          clientTokens: await cast.newClients(registrationsPerRound),
          receiverUrl: theatre.receiverUrl,
        },
      },
      publisher,
      undefined,
      pids,
    ),
  );
  return {
    name: scenario.name,
    what: `POST /register_push_notifications, ${scenario.publishers} at a time, ${registrationsPerRound} clients or the round's time`,
    rounds,
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

function known(pids: Record<string, number | undefined>): Record<string, number> {
  return Object.fromEntries(Object.entries(pids).filter((e): e is [string, number] => e[1] !== undefined));
}
