import { readCounts } from '../../redis/sweep/counts.js';
import { isTemporalUnavailable } from '../../temporal/unavailable.js';
import { type ClientStatus, readClients, type Situation, situations } from '../clientStatus.js';
import type { AddCommand, Operator } from '../operator.js';
import { reasonOf } from '../reason.js';
import { askRedis, countWorkers } from '../servers.js';
import { type Colour, facts, paint, table } from '../terminal/table.js';
import { amount, fromNow, lastErrorOf, moment, span } from '../terminal/words.js';

export function addStatusCommand(add: AddCommand): void {
  add('status', 'say whether it is us or them, and show the worst clients', status);
}

/** The longest call to Temporal, because a person waits. */
const temporalWithinMs = 5000;

async function status(operator: Operator): Promise<void> {
  const db = await operator.db();
  const [redis, temporal, { ended }] = await Promise.all([
    askRedis(db),
    askTemporal(operator),
    readCounts(db),
  ]);
  const { clients, broken } = await readClients(db, operator.config());
  const ours = [
    ...[redis.slow, redis.refuses, temporal.problem].filter((problem) => problem !== undefined),
    ...(temporal.workers === 0 ? ['No worker asks Temporal for work.'] : []),
    ...sweepProblem(ended?.atMs),
    ...brokenKeys(broken),
    ...lateness(clients),
  ];
  const verdict = judge(ours, clients);
  const lagMs = clients.reduce((most, { overdueMs }) => Math.max(most, overdueMs), 0);
  const owed = clients.reduce((sum, { endpoint }) => sum + endpoint.owed, 0);
  const owedClients = clients.filter(({ endpoint }) => endpoint.owed > 0).length;
  const worst = worstOf(clients);
  operator.answer(
    {
      ...verdict,
      lag_seconds: Math.round(lagMs / 1000),
      owed,
      owed_clients: owedClients,
      redis: redis.refuses ?? redis.slow ?? 'ok',
      temporal: temporal.problem ?? 'ok',
      workers: temporal.workers ?? null,
      worst: worst.map(present),
    },
    () =>
      [
        headline(verdict),
        '',
        facts({
          redis: `answers in ${span(redis.answerMs)}${redis.refuses === undefined ? '' : ', refuses writes'}`,
          temporal: temporal.problem ?? 'ok',
          workers: temporal.workers ?? 'unknown',
          lag: lagMs === 0 ? 'none' : span(lagMs),
          owed: `${owed} to ${amount(owedClients, 'client')}`,
        }),
        '',
        worstTable(worst),
      ].join('\n'),
  );
}

async function askTemporal(operator: Operator): Promise<{ workers?: number; problem?: string }> {
  try {
    const temporal = await operator.temporal();
    const workers = await temporal.connection.withDeadline(Date.now() + temporalWithinMs, () =>
      countWorkers(temporal, operator.config()),
    );
    return { workers };
  } catch (err) {
    return { problem: isTemporalUnavailable(err) ? 'Temporal does not answer.' : reasonOf(err) };
  }
}

/** The sweep runs every 15 seconds; the alert waits as long (deploy/prometheus/alerts.yml). */
const sweptWithinMs = 180_000;

/** @param sweptAtMs undefined: none has completed yet */
function sweepProblem(sweptAtMs: number | undefined): string[] {
  if (sweptAtMs === undefined || Date.now() - sweptAtMs <= sweptWithinMs) return [];
  return [`No sweep has completed for ${span(Date.now() - sweptAtMs)}.`];
}

const named = 10;

function brokenKeys(broken: readonly string[]): string[] {
  if (broken.length === 0) return [];
  return [`The keys of some clients are broken: ${broken.slice(0, named).join(', ')}.`];
}

function lateness(clients: readonly ClientStatus[]): string[] {
  const late = clients
    .filter(({ situation }) => situation === 'late')
    .sort((a, b) => b.overdueMs - a.overdueMs);
  const [latest] = late;
  if (latest === undefined) return [];
  const are = late.length === 1 ? '1 client is' : `${late.length} clients are`;
  return [
    `${are} owed something that could be sent and is not, for ${span(latest.overdueMs)} (${latest.clientToken}).`,
  ];
}

interface Verdict {
  verdict: 'fine' | 'us' | 'them';
  because: string;
}

/** `us`: the service fails to do something that it could do; `them`: only receivers prevent deliveries. */
function judge(ours: readonly string[], clients: readonly ClientStatus[]): Verdict {
  if (ours.length > 0) return { verdict: 'us', because: ours.join(' ') };
  const theirs = say(clients, ['failing', 'suspended', 'not_before']);
  if (theirs !== '') return { verdict: 'them', because: `Endpoints: ${theirs}.` };
  const waiting = say(clients, ['draining', 'paused', 'held', 'no_url']);
  const because = 'Nothing is overdue and no endpoint fails.';
  return { verdict: 'fine', because: waiting === '' ? because : `${because} Clients: ${waiting}.` };
}

/** `2 failing (owed 31), 1 no url (owed 4)`. */
function say(clients: readonly ClientStatus[], which: readonly Situation[]): string {
  return which
    .flatMap((situation) => {
      const among = clients.filter((client) => client.situation === situation);
      const owed = among.reduce((sum, { endpoint }) => sum + endpoint.owed, 0);
      return among.length === 0 ? [] : [`${among.length} ${inWords(situation)} (owed ${owed})`];
    })
    .join(', ');
}

const inWords = (situation: Situation): string => situation.replace('_', ' ');

function headline({ verdict, because }: Verdict): string {
  const [colour, words] = headings[verdict];
  return `${paint(colour, words)} ${because}`;
}

const headings: Record<Verdict['verdict'], [Colour, string]> = {
  fine: ['green', 'All is well.'],
  us: ['red', 'It is us.'],
  them: ['yellow', 'It is them.'],
};

const worstShown = 10;

function worstOf(clients: readonly ClientStatus[]): ClientStatus[] {
  return clients
    .filter(({ situation, endpoint }) => situation !== 'clear' || endpoint.failures > 0)
    .sort(
      (a, b) =>
        situations.indexOf(a.situation) - situations.indexOf(b.situation) ||
        b.endpoint.owed - a.endpoint.owed,
    )
    .slice(0, worstShown);
}

function present({ clientToken, endpoint, situation, overdueMs }: ClientStatus) {
  return {
    client_token: clientToken,
    state: endpoint.state,
    situation,
    owed: endpoint.owed,
    owed_since: moment(endpoint.oldestOwedAt) ?? null,
    overdue_seconds: Math.round(overdueMs / 1000),
    next_attempt_at: moment(endpoint.nextAttemptAt) ?? null,
    failures: endpoint.failures,
    last_error: endpoint.lastError ?? null,
    last_status: endpoint.lastStatus ?? null,
    last_success_at: moment(endpoint.lastSuccessAt) ?? null,
  };
}

function worstTable(worst: readonly ClientStatus[]): string {
  return table(
    ['WORST', 'SITUATION', 'OWED', 'SINCE', 'NEXT', 'FAILURES', 'LAST ERROR', 'LAST SUCCESS'],
    worst.map(({ clientToken, situation, endpoint }) => [
      clientToken,
      { text: inWords(situation), colour: situation === 'late' ? 'red' : undefined },
      endpoint.owed,
      fromNow(endpoint.oldestOwedAt),
      fromNow(endpoint.nextAttemptAt),
      endpoint.failures,
      lastErrorOf(endpoint),
      fromNow(endpoint.lastSuccessAt),
    ]),
    'No endpoint has a problem.',
  );
}
