import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { deliveryOf } from '../delivery/settings.js';
import { mapInPages } from '../mapInPages.js';
import { listClients } from '../store/clients.js';
import type { Db } from '../store/db.js';
import { type Endpoint, getEndpoints } from '../store/endpoint.js';
import { oldestLiveOwedAt } from '../store/oldestLive.js';
import { owedOverview } from '../store/owed.js';
import { listRegistrations } from '../store/registrations.js';
import { fromNow, moment, span } from './moment.js';
import type { Operator } from './operator.js';
import { type Rates, readRates } from './rates.js';
import { facts, table } from './table.js';

/** What is owed and has nobody working on it is picked up within 2 minutes (contract, section 3). */
const overdueMs = 120_000;
const worstShown = 10;

interface ClientHealth {
  clientToken: string;
  registered: boolean;
  endpoint: Endpoint;
  overdueMs: number;
  oldestLiveOwedAt: number | undefined;
}

interface Servers {
  redis: string;
  temporal: string;
  workers: number | null;
}

export function addStatusCommand(program: Command, operator: Operator): void {
  program
    .command('status')
    .description('what is owed, since when, to whom; and whether it is us or them')
    .action(async () => {
      const db = await operator.db();
      const servers = await askServers(operator);
      const clients = await healthOfClients(db, deliveryOf(operator.config()).retentionMs);
      const rates = await readRates(operator.admin());
      const owedTo = clients.filter((c) => c.endpoint.owed > 0);
      const oldest = owedTo
        .filter((c) => c.registered && c.oldestLiveOwedAt !== undefined)
        .filter((c) => c.endpoint.state !== 'paused' && c.endpoint.state !== 'suspended')
        .sort((a, b) => (a.oldestLiveOwedAt ?? 0) - (b.oldestLiveOwedAt ?? 0))[0];
      const worst = clients.filter(isBad).sort(worstFirst).slice(0, worstShown);
      const verdict = judge(servers, clients);
      const answer = {
        verdict: verdict.who,
        because: verdict.because,
        redis: servers.redis,
        temporal: servers.temporal,
        workers: servers.workers,
        owed: sum(clients, (c) => c.endpoint.owed),
        owed_clients: owedTo.length,
        in_flight: sum(clients, (c) => c.endpoint.inFlight),
        oldest_owed_live: oldest
          ? { client_token: oldest.clientToken, since: moment(oldest.oldestLiveOwedAt) }
          : null,
        endpoints: countStates(clients),
        rates,
        worst: worst.map(shown),
      };
      operator.answer(answer, () => inWords(answer, worst, oldest));
    });
}

async function askServers(operator: Operator): Promise<Servers> {
  try {
    const temporal = await operator.temporal();
    return { redis: 'ok', temporal: 'ok', workers: await countWorkers(temporal, operator) };
  } catch (err) {
    return { redis: 'ok', temporal: err instanceof Error ? err.message : String(err), workers: null };
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

async function healthOfClients(db: Db, retentionMs: number): Promise<ClientHealth[]> {
  const clientTokens = (await listClients(db)).map((client) => client.clientToken);
  const registered = new Set((await listRegistrations(db)).map((found) => found.clientToken));
  const endpoints = await getEndpoints(db, clientTokens);
  const clients = clientTokens.map((clientToken, i) => ({ clientToken, endpoint: endpoints[i] as Endpoint }));
  return await mapInPages(clients, atOnce, async ({ clientToken, endpoint }) => ({
    clientToken,
    registered: registered.has(clientToken),
    endpoint,
    overdueMs: endpoint.owed > 0 ? (await owedOverview(db, clientToken, retentionMs)).overdueMs : 0,
    oldestLiveOwedAt: endpoint.owed > 0 ? await oldestLiveOwedAt(db, clientToken) : undefined,
  }));
}

/** Clients asked about at the same time. */
const atOnce = 100;

function judge(servers: Servers, clients: ClientHealth[]): { who: 'fine' | 'us' | 'them'; because: string } {
  if (servers.temporal !== 'ok') return { who: 'us', because: servers.temporal };
  if (servers.workers === 0) return { who: 'us', because: 'No worker asks Temporal for work.' };
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
      owed: `${answer.owed} to ${answer.owed_clients} clients`,
      'oldest live': oldest
        ? `${fromNow(oldest.oldestLiveOwedAt)} (${oldest.clientToken})`
        : 'nothing that is tried',
      'in flight': answer.in_flight,
      endpoints: Object.entries(answer.endpoints)
        .map(([state, count]) => `${count} ${state}`)
        .join(', '),
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
