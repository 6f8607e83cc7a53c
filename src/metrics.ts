import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { DeliveryMetrics } from './delivery/deps.js';
import type { OutboxMetrics } from './delivery/outbox/workflowStarts.js';

/** What the service counts. No account, client, asset or URL is ever a label. */
export interface Metrics extends DeliveryMetrics, OutboxMetrics {
  registry: Registry;
  answered(request: { method: string; route: string; status: number }, milliseconds: number): void;
  tokenMinted(): void;
  /** Shows a number of this process, read at each scrape; undefined leaves the metric out of that scrape. */
  watch(name: WatchedMetric, read: () => number | undefined): void;
}

const watched = {
  asset_update_claims_under_way: 'Events that wait for Redis to claim them',
  asset_update_outbox_waiting_events: 'Accepted events that wait for their workflow to be started',
  asset_update_queued_attempts: "Notifications that wait in this process for one of their client's places",
  asset_update_posts_waiting: 'POSTs that wait for a connection or a socket',
  asset_update_retries_under_way: 'Activities of enrichment workflows under way in this process',
  asset_update_upkeep_under_way:
    'Sweeps, probes and drains, redeliveries and late claims under way in this process',
  asset_update_posts_in_flight: 'POSTs to receivers under way in this process',
  asset_update_sweep_schedule_paused:
    "Whether the sweep's schedule is paused (1), as this process last saw it",
} as const;

export type WatchedMetric = keyof typeof watched;
export const watchedMetrics = Object.keys(watched) as WatchedMetric[];

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
    help: 'Attempts that could not be made, for a reason of this process or host: they count against no endpoint',
    labelNames: ['cause'],
    registers,
  });
  const ended = new Counter({
    name: 'asset_update_notifications_ended_total',
    help: 'Notifications by the state they ended in',
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
    help: 'Accepted events that have no workflow: more of them waited for Temporal than this process holds',
    registers,
  });

  return {
    registry,
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
