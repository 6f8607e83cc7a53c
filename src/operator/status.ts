import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { deliveryOf } from '../delivery/settings.js';
import { readCounts } from '../store/counts.js';
import { type ClientHealth, healthOfClients } from './health.js';
import { fromNow, moment, span } from './moment.js';
import type { Operator } from './operator.js';
import { type Rates, readRates } from './rates.js';
import { facts, table } from './table.js';

/** What is owed and has nobody working on it is picked up within 2 minutes (contract, section 3). */
const overdueMs = 120_000;
/** The sweep runs every minute; as long as this the alert waits, too (deploy/prometheus/alerts.yml). */
const sweepLateMs = 180_000;
const worstShown = 10;

interface Servers {
  redis: string;
  temporal: string;
  workers: number | null;
  /** Why the schedule of the sweep is paused; null where it is not, or nobody knows. */
  sweepPaused: string | null;
}

interface Findings extends Servers {
  /** When the sweep last ran to its end, ms; undefined: never. */
  sweptAt: number | undefined;
  clients: ClientHealth[];
  broken: string[];
}

export function addStatusCommand(program: Command, operator: Operator): void {
  program
    .command('status')
    .description('what is owed, since when, to whom: walks all clients; and whether it is us or them')
    .action(async () => {
      const db = await operator.db();
      const servers = await askServers(operator);
      const { clients, broken } = await healthOfClients(db, deliveryOf(operator.config()).retentionMs);
      const sweptAt = (await readCounts(db)).ended?.atMs;
      const rates = await readRates(operator.admin());
      const owedTo = clients.filter((c) => c.endpoint.owed > 0);
      const oldest = owedTo
        .filter((c) => c.registered && c.oldestLiveOwedAt !== undefined)
        .filter((c) => c.endpoint.state !== 'paused' && c.endpoint.state !== 'suspended')
        .sort((a, b) => (a.oldestLiveOwedAt ?? 0) - (b.oldestLiveOwedAt ?? 0))[0];
      const worst = clients.filter(isBad).sort(worstFirst).slice(0, worstShown);
      const verdict = judge({ ...servers, sweptAt, clients, broken });
      const answer = {
        verdict: verdict.who,
        because: verdict.because,
        redis: servers.redis,
        temporal: servers.temporal,
        workers: servers.workers,
        sweep: { completed_at: moment(sweptAt) ?? null, paused: servers.sweepPaused },
        owed: sum(clients, (c) => c.endpoint.owed),
        owed_clients: owedTo.length,
        in_flight: sum(clients, (c) => c.endpoint.inFlight),
        oldest_owed_live: oldest
          ? { client_token: oldest.clientToken, since: moment(oldest.oldestLiveOwedAt) }
          : null,
        endpoints: countStates(clients),
        broken_clients: broken,
        rates,
        worst: worst.map(shown),
      };
      operator.answer(answer, () => inWords(answer, worst, oldest));
    });
}

async function askServers(operator: Operator): Promise<Servers> {
  try {
    const temporal = await operator.temporal();
    const { pausedBecause } = await import('../temporal/sweepSchedule.js');
    return {
      redis: 'ok',
      temporal: 'ok',
      workers: await countWorkers(temporal, operator),
      sweepPaused: (await pausedBecause(temporal, operator.config().TASK_QUEUE)) ?? null,
    };
  } catch (err) {
    const temporal = err instanceof Error ? err.message : String(err);
    return { redis: 'ok', temporal, workers: null, sweepPaused: null };
  }
}

/** Workers that asked for workflow tasks lately: at most 5 minutes ago, as Temporal keeps them. */
async function countWorkers(temporal: Client, operator: Operator): Promise<number> {
  const { TEMPORAL_NAMESPACE, TASK_QUEUE } = operator.config();
  const queue = await temporal.workflowService.describeTaskQueue({
    namespace: TEMPORAL_NAMESPACE,
    taskQueue: { name: TASK_QUEUE },
    taskQueueType: 1,
  });
  const lately = Date.now() - 90_000;
  const polled = (queue.pollers ?? []).filter(
    (poller) => Number(poller.lastAccessTime?.seconds ?? 0) * 1000 > lately,
  );
  return new Set(polled.map((poller) => poller.identity)).size;
}

function judge({ clients, ...found }: Findings): { who: 'fine' | 'us' | 'them'; because: string } {
  if (found.temporal !== 'ok') return { who: 'us', because: found.temporal };
  if (found.workers === 0) return { who: 'us', because: 'No worker asks Temporal for work.' };
  if (found.sweepPaused !== null) {
    return { who: 'us', because: `The schedule of the sweep is paused: ${found.sweepPaused}` };
  }
  const sinceSweepMs = Date.now() - (found.sweptAt ?? Date.now());
  if (sinceSweepMs > sweepLateMs) {
    return { who: 'us', because: `No sweep has run to its end for ${span(sinceSweepMs)}.` };
  }
  if (found.broken.length > 0) {
    const named = found.broken.slice(0, worstShown).join(', ');
    return { who: 'us', because: `The keys of some clients are broken: ${named}.` };
  }
  const late = clients.filter((c) => c.overdueMs > overdueMs).sort((a, b) => b.overdueMs - a.overdueMs);
  const latest = late[0];
  if (latest !== undefined) {
    const because = `${late.length} clients are owed what was due ${span(latest.overdueMs)} ago (${latest.clientToken}).`;
    return { who: 'us', because };
  }
  const bad = clients.filter((c) => c.endpoint.state === 'failing' || c.endpoint.state === 'suspended');
  if (bad.length > 0) {
    const owed = sum(bad, (c) => c.endpoint.owed);
    return { who: 'them', because: `${bad.length} endpoints fail or are suspended; they are owed ${owed}.` };
  }
  return { who: 'fine', because: 'Nothing is overdue and no endpoint fails.' };
}

function inWords(
  answer: {
    verdict: 'fine' | 'us' | 'them';
    because: string;
    temporal: string;
    workers: number | null;
    sweep: { completed_at: string | null; paused: string | null };
    broken_clients: string[];
    owed: number;
    owed_clients: number;
    in_flight: number;
    endpoints: Record<string, number>;
    rates: Rates | null;
  },
  worst: ClientHealth[],
  oldest: ClientHealth | undefined,
): string {
  const heading = { fine: 'All is well.', us: 'It is us.', them: 'It is them.' }[answer.verdict];
  return [
    `${heading} ${answer.because}`,
    '',
    facts({
      temporal: answer.temporal,
      workers: answer.workers ?? 'unknown',
      sweep: sweepInWords(answer.sweep),
      owed: `${answer.owed} to ${answer.owed_clients} clients`,
      'oldest live': oldest
        ? `${fromNow(oldest.oldestLiveOwedAt)} (${oldest.clientToken})`
        : 'nothing that is tried',
      'in flight': answer.in_flight,
      endpoints: Object.entries(answer.endpoints)
        .map(([state, count]) => `${count} ${state}`)
        .join(', '),
      'broken keys': answer.broken_clients.slice(0, worstShown).join(', ') || undefined,
      rates: answer.rates
        ? Object.entries(answer.rates)
            .map(([name, rate]) => `${rate} ${name.replaceAll('_', ' ')}`)
            .join(', ')
        : 'unknown (no metrics to be read)',
    }),
    '',
    table(
      ['WORST', 'STATE', 'OWED', 'SINCE', 'FAILURES', 'LAST ERROR', 'LAST SUCCESS'],
      worst.map(({ clientToken, endpoint: e }) => [
        clientToken,
        e.state,
        e.owed,
        fromNow(e.oldestOwedAt),
        e.failures,
        [e.lastError, e.lastStatus].filter((part) => part !== undefined).join(' '),
        fromNow(e.lastSuccessAt),
      ]),
      'No endpoint is in trouble.',
    ),
  ].join('\n');
}

function sweepInWords({
  completed_at,
  paused,
}: {
  completed_at: string | null;
  paused: string | null;
}): string {
  const ran = completed_at === null ? 'has not run yet' : `ran ${fromNow(Date.parse(completed_at))}`;
  return paused === null ? ran : `${ran}, paused`;
}

function shown({ clientToken, endpoint }: ClientHealth) {
  return {
    client_token: clientToken,
    state: endpoint.state,
    owed: endpoint.owed,
    owed_since: moment(endpoint.oldestOwedAt) ?? null,
    failures: endpoint.failures,
    last_error: endpoint.lastError ?? null,
    last_status: endpoint.lastStatus ?? null,
    last_success_at: moment(endpoint.lastSuccessAt) ?? null,
  };
}

function isBad({ endpoint }: ClientHealth): boolean {
  return endpoint.state !== 'active' || endpoint.failures > 0;
}

const severity = { suspended: 3, failing: 2, paused: 1, active: 0 };

function worstFirst(a: ClientHealth, b: ClientHealth): number {
  return severity[b.endpoint.state] - severity[a.endpoint.state] || b.endpoint.owed - a.endpoint.owed;
}

function countStates(clients: ClientHealth[]): Record<string, number> {
  const counts = { active: 0, failing: 0, paused: 0, suspended: 0 };
  for (const { registered, endpoint } of clients) if (registered) counts[endpoint.state]++;
  return counts;
}

function sum<T>(of: readonly T[], value: (item: T) => number): number {
  return of.reduce((total, item) => total + value(item), 0);
}
