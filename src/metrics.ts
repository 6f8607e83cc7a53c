import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { type DeliveryMetrics, ownFailureCauses } from './delivery/send.js';
import type { OutboxMetrics } from './delivery/workflowStarts.js';
import { attemptErrors } from './outgoing/failures.js';
import type { CommandObserver } from './redis/connection/observeCommands.js';
import { redisErrorClasses } from './redis/connection/unavailable.js';
import { endpointStates } from './redis/records/endpoint.js';
import { type CallObserver, observedCalls, temporalErrorClasses } from './temporal/observeCalls.js';

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

export type WatchedMetric = keyof typeof watched;
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

  const requests = new Histogram({
    name: 'asset_update_http_request_duration_seconds',
    help: 'HTTP requests by route and status',
    labelNames: ['method', 'route', 'status'],
    buckets: latencyBuckets,
    registers,
  });
  const tokens = new Counter({
    name: 'asset_update_access_tokens_minted_total',
    help: 'Access tokens minted',
    registers,
  });
  const attempts = new Histogram({
    name: 'asset_update_attempt_duration_seconds',
    help: 'Attempts by outcome and error class',
    labelNames: ['outcome', 'error'],
    buckets: latencyBuckets,
    registers,
  });
  const ownFailures = new Counter({
    name: 'asset_update_own_failures_total',
    help: 'Attempts that could not be made because of an own failure: they count against no endpoint',
    labelNames: ['cause'],
    registers,
  });
  const ended = new Counter({
    name: 'asset_update_notifications_ended_total',
    help: 'Notifications by the state in which they ended',
    labelNames: ['state'],
    registers,
  });
  const entered = new Counter({
    name: 'asset_update_endpoint_state_changes_total',
    help: 'Changes of state of endpoints, by the state entered',
    labelNames: ['state'],
    registers,
  });
  const groups = new Histogram({
    name: 'asset_update_group_events',
    help: 'Events per enrichment workflow',
    buckets: [1, 2, 5, 10, 25, 50, 100, 250, 500],
    registers,
  });
  const withoutWorkflow = new Counter({
    name: 'asset_update_events_without_workflow_total',
    help: 'Accepted events that got no workflow: too many already waited for Temporal in this process',
    registers,
  });

  const events = new Counter({
    name: 'asset_update_events_total',
    help: 'Enrichment events answered, by result',
    labelNames: ['result'],
    registers,
  });
  const firstAttempts = new Histogram({
    name: 'asset_update_accept_to_first_attempt_seconds',
    help: 'From the acceptance of an event to the beginning of its first attempt',
    labelNames: ['priority'],
    buckets: lagBuckets,
    registers,
  });
  const deliveries = new Histogram({
    name: 'asset_update_accept_to_delivered_seconds',
    help: 'From the acceptance of an event to the 2xx',
    labelNames: ['priority'],
    buckets: lagBuckets,
    registers,
  });
  const redisCommands = new Histogram({
    name: 'asset_update_redis_command_duration_seconds',
    help: 'Redis commands from sending to the answer, failures included',
    buckets: redisBuckets,
    registers,
  });
  const redisErrors = new Counter({
    name: 'asset_update_redis_errors_total',
    help: 'Redis commands that failed, by cause',
    labelNames: ['error'],
    registers,
  });
  const temporalCalls = new Histogram({
    name: 'asset_update_temporal_call_duration_seconds',
    help: 'Temporal calls about workflows, failures included',
    labelNames: ['call'],
    buckets: latencyBuckets,
    registers,
  });
  const temporalErrors = new Counter({
    name: 'asset_update_temporal_errors_total',
    help: 'Temporal calls about workflows that failed, by cause',
    labelNames: ['call', 'error'],
    registers,
  });

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
    watch(name, read) {
      new Gauge({
        name,
        help: watched[name],
        registers,
        collect() {
          const value = read();
          if (value === undefined) this.remove();
          else this.set(value);
        },
      });
    },
  };
}
