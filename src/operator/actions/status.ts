import { clientTokens } from '../../redis/records/clients.js';
import { type ClientHealth, type Health, healthOfClients } from '../health/health.js';
import { type OwnHealth, readOwnHealth, redisAsFact } from '../health/ownHealth.js';
import { type Rates, readRates } from '../health/rates.js';
import { headline, judge, type Verdict } from '../health/verdict.js';
import { shownClient, worstOf, worstTable } from '../health/worst.js';
import type { Operator } from '../operator.js';
import { amount } from '../terminal/amount.js';
import { fromNow, moment } from '../terminal/moment.js';
import { facts } from '../terminal/table.js';

const brokenShown = 10;

export async function status(operator: Operator): Promise<void> {
  const own = await readOwnHealth(operator);
  const tokens: string[] = [];
  for await (const page of clientTokens(await operator.db())) tokens.push(...page);
  const [health, rates] = await Promise.all([healthOfClients(operator, tokens), readRates(operator.admin())]);
  const found = { own, ...health, rates, verdict: judge(own, health) };
  operator.answer(shown(found), () => inWords(found));
}

interface Found extends Health {
  own: OwnHealth;
  rates: Rates | null;
  verdict: Verdict;
}

function shown({ own, clients, broken, rates, verdict }: Found) {
  const owedTo = clients.filter((c) => c.endpoint.owed > 0);
  return {
    verdict: verdict.who,
    because: verdict.because,
    redis: own.redis,
    redis_ms: Math.round(own.redisMs * 10) / 10,
    temporal: own.temporal,
    workers: own.workers ?? null,
    sweep: {
      completed_at: moment(own.sweptAt) ?? null,
      started_at: (own.sweep && 'ranAt' in own.sweep && moment(own.sweep.ranAt)) || null,
      paused: own.sweep?.kind === 'paused' ? own.sweep.note : null,
    },
    owed: sum(clients, (c) => c.endpoint.owed),
    owed_clients: owedTo.length,
    in_flight: sum(clients, (c) => c.endpoint.inFlight),
    endpoints: countStates(clients),
    broken_clients: broken,
    rates,
    worst: worstOf(clients).map(shownClient),
  };
}

function inWords(found: Found): string {
  const { own, clients, broken, rates } = found;
  const owedTo = clients.filter((c) => c.endpoint.owed > 0);
  return [
    headline(found.verdict),
    '',
    facts({
      redis: redisAsFact(own),
      temporal: own.temporal,
      workers: own.workers ?? 'unknown',
      sweep: sweepAsFact(own),
      owed: `${sum(clients, (c) => c.endpoint.owed)} to ${amount(owedTo.length, 'client')}`,
      'in flight': sum(clients, (c) => c.endpoint.inFlight),
      endpoints: Object.entries(countStates(clients))
        .map(([state, count]) => `${count} ${state}`)
        .join(', '),
      'broken keys': broken.slice(0, brokenShown).join(', '),
      rates: rates
        ? Object.entries(rates)
            .map(([name, rate]) => `${rate} ${name.replaceAll('_', ' ')}`)
            .join(', ')
        : 'unknown (no metrics could be read)',
    }),
    '',
    worstTable(clients),
  ].join('\n');
}

function sweepAsFact({ sweep, sweptAt }: OwnHealth): string {
  const ran = sweptAt === undefined ? 'never completed' : `ran ${fromNow(sweptAt)}`;
  if (sweep === undefined) return ran;
  return sweep.kind === 'running' ? ran : `${ran}, ${sweep.kind}`;
}

function countStates(clients: readonly ClientHealth[]): Record<string, number> {
  const counts = { active: 0, failing: 0, paused: 0, suspended: 0 };
  for (const { situation, endpoint } of clients) if (situation !== 'no_url') counts[endpoint.state]++;
  return counts;
}

function sum<T>(of: readonly T[], value: (item: T) => number): number {
  return of.reduce((total, item) => total + value(item), 0);
}
