import { measure, type Round } from '../measure.js';
import { connectionsAtRate } from '../runScenario.js';
import type { Theatre } from '../theatre.js';
import type { Cell } from './study.js';

export interface LiveTraffic {
  name: string;
  clientTokens: string[];
  /** Single events a second, at a fixed rate. */
  perSecond: number;
  seconds: number;
  /** Whether it first waits until the service is idle. */
  first: 'settle' | 'nothing';
}

const warmUpMs = 2000;

/** Publishes single live events at a fixed rate to clients of the benchmark's receiver. */
export async function liveTraffic(theatre: Theatre, live: LiveTraffic): Promise<Round> {
  const { stack, cast, publisher, receiver, pids } = theatre;
  return await measure(
    {
      baseUrls: stack.baseUrls,
      connections: connectionsAtRate,
      pace: { kind: 'rate', requestsPerSecond: live.perSecond },
      warmUpMs,
      durationMs: live.seconds * 1000,
      request: {
        kind: 'events',
        accessToken: cast.platform.accessToken,
        clientTokens: live.clientTokens,
        batchSize: 1,
        segments: 3,
        assets: 0,
        round: live.name,
      },
    },
    publisher,
    receiver,
    pids,
    { first: live.first },
  );
}

export const latencyHead = [
  'accept to arrival, ms',
  'p50',
  'p99',
  'max',
  'missing',
  'duplicates',
  'refusals',
];

/** Writes a row under `latencyHead`. */
export function latencyRow(what: string, round: Round): Cell[] {
  const { latency, accounting } = round.delivery ?? {};
  const refusals = Object.values(round.refusals).reduce((sum, n) => sum + n, 0);
  return [
    what,
    latency?.p50 ?? Number.NaN,
    latency?.p99 ?? Number.NaN,
    latency?.max ?? Number.NaN,
    accounting?.missing ?? Number.NaN,
    accounting?.duplicates ?? Number.NaN,
    refusals,
  ];
}

/** Divides the latency of `round` by that of `than`. */
export function ratioRow(what: string, round: Round, than: Round): Cell[] {
  const ratio = (p: 'p50' | 'p99' | 'max') =>
    (round.delivery?.latency[p] ?? Number.NaN) / (than.delivery?.latency[p] ?? Number.NaN);
  return [what, ratio('p50'), ratio('p99'), ratio('max'), '', '', ''];
}
