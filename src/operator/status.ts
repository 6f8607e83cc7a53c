import type { Command } from 'commander';
import { type ClientHealth, healthOfClients, type Situation } from './clientHealth.js';
import { fromNow, moment, span } from './moment.js';
import type { Operator } from './operator.js';
import { type OwnHealth, readOwnHealth } from './ownHealth.js';
import { type Rates, readRates } from './rates.js';
import { facts, table } from './table.js';
import { judge, type Verdict } from './verdict.js';

const worstShown = 10;

export function addStatusCommand(program: Command, operator: Operator): void {
  program
    .command('status')
    .description('what is owed, since when, to whom; and whether it is us or them')
    .action(async () => {
      const own = await readOwnHealth(operator);
      const [clients, rates] = await Promise.all([healthOfClients(operator), readRates(operator.admin())]);
      const found = { own, clients, rates, verdict: judge(own, clients) };
      operator.answer(shown(found), () => inWords(found));
    });
}

export interface Found {
  own: OwnHealth;
  clients: readonly ClientHealth[];
  rates: Rates | null;
  verdict: Verdict;
}

function shown({ own, clients, rates, verdict }: Found) {
  const owedTo = clients.filter((c) => c.endpoint.owed > 0);
  const oldest = oldestTried(clients);
  return {
    verdict: verdict.who,
    because: verdict.because,
    redis: 'ok',
    redis_ms: Math.round(own.redisMs * 10) / 10,
    temporal: own.temporal,
    workers: own.workers ?? null,
    sweep: own.sweep?.kind ?? null,
    sweep_ran_at: (own.sweep && 'ranAt' in own.sweep && moment(own.sweep.ranAt)) || null,
    owed: sum(clients, (c) => c.endpoint.owed),
    owed_clients: owedTo.length,
    in_flight: sum(clients, (c) => c.endpoint.inFlight),
    oldest_owed_live: oldest
      ? { client_token: oldest.clientToken, since: moment(oldest.oldestLiveOwedAt) }
      : null,
    endpoints: countStates(clients),
    rates,
    worst: worstOf(clients).map(shownClient),
  };
}

export function shownClient({ clientToken, endpoint, situation, overdueMs, drainedPerSecond }: ClientHealth) {
  return {
    client_token: clientToken,
    state: endpoint.state,
    situation,
    owed: endpoint.owed,
    owed_since: moment(endpoint.oldestOwedAt) ?? null,
    overdue_seconds: Math.round(overdueMs / 1000),
    drained_per_second: drainedPerSecond ?? null,
    next_attempt_at: moment(endpoint.nextAttemptAt) ?? null,
    failures: endpoint.failures,
    last_error: endpoint.lastError ?? null,
    last_status: endpoint.lastStatus ?? null,
    last_success_at: moment(endpoint.lastSuccessAt) ?? null,
  };
}

function inWords(found: Found): string {
  const { own, clients, rates } = found;
  const owedTo = clients.filter((c) => c.endpoint.owed > 0);
  const oldest = oldestTried(clients);
  return [
    headline(found.verdict),
    '',
    facts({
      redis: `answers in ${span(own.redisMs)}`,
      temporal: own.temporal,
      workers: own.workers ?? 'unknown',
      sweep: own.sweep ? sweepAsFact(own.sweep) : 'unknown',
      owed: `${sum(clients, (c) => c.endpoint.owed)} to ${owedTo.length} clients`,
      'oldest live': oldest
        ? `${fromNow(oldest.oldestLiveOwedAt)} (${oldest.clientToken})`
        : 'nothing that is tried',
      'in flight': sum(clients, (c) => c.endpoint.inFlight),
      endpoints: Object.entries(countStates(clients))
        .map(([state, count]) => `${count} ${state}`)
        .join(', '),
      rates: rates
        ? Object.entries(rates)
            .map(([name, rate]) => `${rate} ${name.replaceAll('_', ' ')}`)
            .join(', ')
        : 'unknown (no metrics to be read)',
    }),
    '',
    worstTable(clients),
  ].join('\n');
}

export function headline({ who, because }: Verdict): string {
  return `${{ fine: 'All is well.', us: 'It is us.', them: 'It is them.' }[who]} ${because}`;
}

function sweepAsFact(sweep: NonNullable<OwnHealth['sweep']>): string {
  return 'ranAt' in sweep ? `last ran ${fromNow(sweep.ranAt)}` : sweep.kind;
}

export function worstTable(clients: readonly ClientHealth[]): string {
  return table(
    ['WORST', 'SITUATION', 'OWED', 'SINCE', 'NEXT', 'FAILURES', 'LAST ERROR', 'LAST SUCCESS'],
    worstOf(clients).map((client) => [
      client.clientToken,
      situationInWords(client),
      client.endpoint.owed,
      fromNow(client.endpoint.oldestOwedAt),
      fromNow(client.endpoint.nextAttemptAt),
      client.endpoint.failures,
      [client.endpoint.lastError, client.endpoint.lastStatus].filter((part) => part !== undefined).join(' '),
      fromNow(client.endpoint.lastSuccessAt),
    ]),
    'No endpoint is in trouble.',
  );
}

function situationInWords({ situation, overdueMs, drainedPerSecond }: ClientHealth): string {
  switch (situation) {
    case 'late':
      return `late by ${span(overdueMs)}`;
    case 'draining':
      return `draining, ${drainedPerSecond ?? 0}/s`;
    case 'not_before':
      return 'asked to wait';
    case 'no_url':
      return 'no URL';
    case 'held':
      return 'account disabled';
    case 'clear':
      return 'retrying';
    default:
      return situation;
  }
}

/** The worst first. */
const severity: readonly Situation[] = [
  'late',
  'suspended',
  'failing',
  'not_before',
  'draining',
  'held',
  'paused',
  'no_url',
  'clear',
];

function worstOf(clients: readonly ClientHealth[]): ClientHealth[] {
  return clients
    .filter(({ situation, endpoint }) => situation !== 'clear' || endpoint.failures > 0)
    .sort(
      (a, b) =>
        severity.indexOf(a.situation) - severity.indexOf(b.situation) || b.endpoint.owed - a.endpoint.owed,
    )
    .slice(0, worstShown);
}

/** Of what is tried. */
function oldestTried(clients: readonly ClientHealth[]): ClientHealth | undefined {
  const tried: readonly Situation[] = ['late', 'draining', 'failing', 'not_before', 'clear'];
  return clients
    .filter((c) => c.oldestLiveOwedAt !== undefined && tried.includes(c.situation))
    .sort((a, b) => (a.oldestLiveOwedAt ?? 0) - (b.oldestLiveOwedAt ?? 0))[0];
}

function countStates(clients: readonly ClientHealth[]): Record<string, number> {
  const counts = { active: 0, failing: 0, paused: 0, suspended: 0 };
  for (const { registered, endpoint } of clients) if (registered) counts[endpoint.state]++;
  return counts;
}

function sum<T>(of: readonly T[], value: (item: T) => number): number {
  return of.reduce((total, item) => total + value(item), 0);
}
