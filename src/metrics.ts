import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { type DeliveryMetrics, ownFailureCauses } from './delivery/send.js';
import type { OutboxMetrics } from './delivery/workflowStarts.js';
import { attemptErrors } from './outgoing/failures.js';
import type { CommandObserver } from './redis/connection/observeCommands.js';
import { redisErrorClasses } from './redis/connection/unavailable.js';
import type { Counts } from './redis/records/counts.js';
import { endpointStates } from './redis/records/endpoint.js';
import { type CallObserver, observedCalls, temporalErrorClasses } from './temporal/connection.js';

/** The metrics of the service. No account, client, asset or URL is ever a label. */
export interface Metrics extends DeliveryMetrics, OutboxMetrics {
  registry: Registry;
  answered(request: { method: string; route: string; status: number }, milliseconds: number): void;
  tokenMinted(): void;
  /** An enrichment event was answered. */
  eventAnswered(result: EventResult): void;
  redisAnswered: CommandObserver;
  temporalAnswered: CallObserver;
  /** Shows a number of this process, read at each scrape; undefined leaves the metric out of that scrape. */
  watch(name: WatchedMetric, read: () => number | undefined): void;
}

/** `queued`: it makes a notification; `repeated`: it had made one before; `unknown`: answered with 503. */
const eventResults = [
  'queued',
  'repeated',
  'no_new_segments',
  'not_registered',
  'silent',
  'unknown_client',
  'invalid',
  'unknown',
] as const;
export type EventResult = (typeof eventResults)[number];

const watched = {
  asset_update_claims_under_way: 'Events that wait for Redis to claim them',
  asset_update_outbox_waiting_events: 'Accepted events that wait for their workflow',
  asset_update_posts_waiting: 'POSTs that wait for a connection or a socket',
  asset_update_retries_under_way: 'Activities of enrichment workflows under way in this process',
  asset_update_upkeep_under_way:
    'Sweeps, probes and drains, redeliveries and late claims under way in this process',
  asset_update_posts_in_flight: 'POSTs to receivers under way in this process',
  asset_update_clock_seconds: "This machine's clock at the moment of the scrape",
  asset_update_sweep_schedule_paused:
    "Whether the sweep's schedule is paused (1), as this process last saw it",
} as const;

type WatchedMetric = keyof typeof watched;
export const watchedMetrics = Object.keys(watched) as WatchedMetric[];

/** From a moment to the retry window. */
const lagBuckets = [
  0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400, 432_000,
];
const redisBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
const latencyBuckets = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const counter = (name: string, help: string, labelNames: string[] = []) =>
    new Counter({ name, help, labelNames, registers });
  const histogram = (name: string, help: string, buckets: number[], labelNames: string[] = []) =>
    new Histogram({ name, help, buckets, labelNames, registers });

  const requests = histogram(
    'asset_update_http_request_duration_seconds',
    'HTTP requests by route and status',
    latencyBuckets,
    ['method', 'route', 'status'],
  );
  const tokens = counter('asset_update_access_tokens_minted_total', 'Access tokens minted');
  const attempts = histogram(
    'asset_update_attempt_duration_seconds',
    'Attempts by outcome and error class',
    latencyBuckets,
    ['outcome', 'error'],
  );
  const ownFailures = counter(
    'asset_update_own_failures_total',
    'Attempts that could not be made because of an own failure: they count against no endpoint',
    ['cause'],
  );
  const ended = counter(
    'asset_update_notifications_ended_total',
    'Notifications by the state in which they ended',
    ['state'],
  );
  const entered = counter(
    'asset_update_endpoint_state_changes_total',
    'Changes of state of endpoints, by the state entered',
    ['state'],
  );
  const groups = histogram(
    'asset_update_group_events',
    'Events per enrichment workflow',
    [1, 2, 5, 10, 25, 50, 100, 250, 500],
  );
  const withoutWorkflow = counter(
    'asset_update_events_without_workflow_total',
    'Accepted events that got no workflow: too many already waited for Temporal in this process',
  );

  const events = counter('asset_update_events_total', 'Enrichment events answered, by result', ['result']);
  const firstAttempts = histogram(
    'asset_update_accept_to_first_attempt_seconds',
    'From the acceptance of an event to the beginning of its first attempt',
    lagBuckets,
    ['priority'],
  );
  const deliveries = histogram(
    'asset_update_accept_to_delivered_seconds',
    'From the acceptance of an event to the 2xx',
    lagBuckets,
    ['priority'],
  );
  const redisCommands = histogram(
    'asset_update_redis_command_duration_seconds',
    'Redis commands from sending to the answer, failures included',
    redisBuckets,
  );
  const redisErrors = counter('asset_update_redis_errors_total', 'Redis commands that failed, by cause', [
    'error',
  ]);
  const temporalCalls = histogram(
    'asset_update_temporal_call_duration_seconds',
    'Temporal calls about workflows, failures included',
    latencyBuckets,
    ['call'],
  );
  const temporalErrors = counter(
    'asset_update_temporal_errors_total',
    'Temporal calls about workflows that failed, by cause',
    ['call', 'error'],
  );

  // Each counter begins at 0, because Prometheus does not see the first event as a rise otherwise.
  for (const result of eventResults) events.inc({ result }, 0);
  for (const state of ['delivered', 'superseded', 'cancelled', 'failed', 'not_needed'])
    ended.inc({ state }, 0);
  for (const state of endpointStates) entered.inc({ state }, 0);
  for (const cause of ownFailureCauses) ownFailures.inc({ cause }, 0);
  for (const error of redisErrorClasses) redisErrors.inc({ error }, 0);
  for (const call of observedCalls) {
    temporalCalls.zero({ call });
    for (const error of temporalErrorClasses) temporalErrors.inc({ call, error }, 0);
  }
  attempts.zero({ outcome: 'delivered', error: '' });
  for (const error of attemptErrors) attempts.zero({ outcome: 'failed', error });
  for (const priority of ['live', 'backfill']) {
    firstAttempts.zero({ priority });
    deliveries.zero({ priority });
  }

  return {
    registry,
    eventAnswered: (result) => events.inc({ result }),
    firstAttempted: (priority, milliseconds) =>
      firstAttempts.observe({ priority }, Math.max(0, milliseconds) / 1000),
    delivered: (priority, milliseconds) => deliveries.observe({ priority }, Math.max(0, milliseconds) / 1000),
    redisAnswered(milliseconds, error) {
      redisCommands.observe(milliseconds / 1000);
      if (error !== undefined) redisErrors.inc({ error });
    },
    temporalAnswered(call, milliseconds, error) {
      temporalCalls.observe({ call }, milliseconds / 1000);
      if (error !== undefined) temporalErrors.inc({ call, error });
    },
    answered: ({ method, route, status }, milliseconds) =>
      requests.observe({ method, route, status }, milliseconds / 1000),
    tokenMinted: () => tokens.inc(),
    attempted: (result, milliseconds) =>
      attempts.observe(
        { outcome: result.ok ? 'delivered' : 'failed', error: result.error ?? '' },
        milliseconds / 1000,
      ),
    ended: (state) => ended.inc({ state }),
    entered: (state) => entered.inc({ state }),
    started: (events) => groups.observe(events),
    withoutWorkflow: (events) => withoutWorkflow.inc(events),
    ownFailure: (cause) => ownFailures.inc({ cause }),
    watch: (name, read) => watchNumber(registry, name, watched[name], read),
  };
}

/** Shows a number that is read at each scrape; undefined leaves it out. */
function watchNumber(
  registry: Registry,
  name: string,
  help: string,
  read: () => number | undefined | Promise<number | undefined>,
): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      const value = await read();
      if (value === undefined) this.remove();
      else this.set(value);
    },
  });
}

const gauges: Record<string, { help: string; of: (counts: Counts) => number | undefined }> = {
  asset_update_owed_notifications: {
    help: 'Notifications that clients are owed',
    of: ({ counted }) => counted?.owed,
  },
  asset_update_owed_clients: {
    help: 'Clients that are owed something',
    of: ({ counted }) => counted?.owedClients,
  },
  asset_update_overdue_clients: {
    help: 'Clients with owed assets that could have been sent more than 2 minutes ago',
    of: ({ counted }) => counted?.overdueClients,
  },
  asset_update_oldest_overdue_seconds: {
    help: 'For how long something could have been sent to the client furthest behind; 0 if to none',
    of: ({ counted }) => counted && Math.max(counted.oldestOverdueMs, 0) / 1000,
  },
  asset_update_catch_ups_running: {
    help: 'Running catch-up workflows',
    of: ({ counted }) => counted?.catchUps,
  },
  asset_update_counts_age_seconds: {
    help: 'How long ago the sweep counted owed notifications, endpoints and catch-ups',
    of: ({ counted }) => counted && counted.ageMs / 1000,
  },
  asset_update_broken_clients: {
    help: 'Clients whose keys cannot be read or contradict each other; must stay 0',
    of: ({ ended }) => ended?.brokenClients,
  },
  asset_update_sweep_completed_timestamp_seconds: {
    help: 'When a sweep last completed',
    of: ({ ended }) => ended && ended.atMs / 1000,
  },
};

/**
 * Shows the counts of the last sweep. A scrape costs one call of `read`, and concurrent scrapes share it. A number
 * that no sweep has counted is left out; if the read fails, all are left out.
 */
export function watchCounts({ registry }: { registry: Registry }, read: () => Promise<Counts>): void {
  let underWay: Promise<Counts> | undefined;
  const counts = (): Promise<Counts> => {
    underWay ??= read()
      .catch(() => ({}))
      .finally(() => {
        underWay = undefined;
      });
    return underWay;
  };
  for (const [name, { help, of }] of Object.entries(gauges)) {
    watchNumber(registry, name, help, async () => of(await counts()));
  }
  new Gauge({
    name: 'asset_update_endpoints',
    help: 'Registrations by the state of their endpoint',
    labelNames: ['state'],
    registers: [registry],
    async collect() {
      const { counted } = await counts();
      this.reset();
      for (const [state, count] of Object.entries(counted?.endpoints ?? {})) this.set({ state }, count);
    },
  });
}
