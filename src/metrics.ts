/** The metrics of the service, and when each is counted. No account, client, asset or URL is ever a label. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { allDetails, attemptErrors } from './outgoing/details.js';
import { ourFailures } from './outgoing/failures.js';
import type { CommandObserver } from './redis/connection/db.js';
import { redisReasons } from './redis/connection/unavailable.js';
import { siteStates } from './redis/records/endpoint.js';
import { type CallObserver, observedCalls, temporalErrorClasses } from './temporal/connection.js';

/**
 * `queued`: the event makes a notification; `repeated`: it had made its notification before; `unknown`: answered with 503; `error`:
 * with 500.
 */
const eventResults = [
  'queued',
  'repeated',
  'no_new_segments',
  'not_registered',
  'silent',
  'unknown_client',
  'invalid',
  'unknown',
  'error',
] as const;
export type EventResult = (typeof eventResults)[number];

/** `secrets`: the client's secrets cannot be decrypted; `unexpected`: any other error before the POST. */
const ownFailureCauses = [...ourFailures, 'secrets', 'unexpected'] as const;
export type OwnFailureCause = (typeof ownFailureCauses)[number];

const watched = {
  asset_update_claims_under_way: 'Events that wait for Redis to claim them',
  asset_update_outbox_waiting_events: 'Accepted events that wait for their workflow',
  asset_update_posts_waiting: 'POSTs that wait for a connection or a socket',
  asset_update_updates_waiting_calls: 'Calls of GET /updates that wait for an update',
  asset_update_retries_under_way: 'Activities of enrichment workflows under way in this process',
  asset_update_upkeep_under_way: 'Sweeps and drains under way in this process',
  asset_update_posts_in_flight: 'POSTs to receivers under way in this process',
  asset_update_temporal_certificates_end_timestamp_seconds: 'When the certificates for Temporal end',
  asset_update_redis_certificate_end_timestamp_seconds: 'When the certificate for Redis ends',
  asset_update_clock_seconds: "This machine's clock at the moment of the scrape",
  asset_update_sweep_schedule_paused:
    "Whether the sweep's schedule is paused (1), as this process last saw it",
  asset_update_failing_workflows: 'Workflows whose tasks have failed in this process, and still do',
} as const;

type WatchedMetric = keyof typeof watched;

/** Seconds, up to the retry window. */
const lagBuckets = [
  0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 21_600, 86_400, 432_000,
];
const redisBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1];
const latencyBuckets = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const groupBuckets = [1, 2, 5, 10, 25, 50, 100, 250, 500];

/** The values of each label that show from the start; none for a label whose values are not known in advance. */
type Labels = Record<string, readonly string[]>;

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });

  // Prometheus sees the first event as a rise only if its counter was there before, at 0.
  const counter = (name: string, help: string, labels: Labels = {}) => {
    const made = new Counter({ name, help, labelNames: Object.keys(labels), registers: [registry] });
    for (const values of combinations(labels)) made.inc(values, 0);
    return made;
  };
  const histogram = (name: string, help: string, buckets: number[], labels: Labels = {}) => {
    const labelNames = Object.keys(labels);
    const made = new Histogram({ name, help, buckets, labelNames, registers: [registry] });
    for (const values of combinations(labels)) made.zero(values);
    return made;
  };

  const requests = histogram(
    'asset_update_http_request_duration_seconds',
    'HTTP requests by route and status',
    latencyBuckets,
    { method: [], route: [], status: [] },
  );
  const tokens = counter('asset_update_access_tokens_minted_total', 'Access tokens minted');
  const events = counter('asset_update_events_total', 'Enrichment events answered, by result', {
    result: eventResults,
  });
  const groups = histogram('asset_update_group_events', 'Events per enrichment workflow', groupBuckets);
  const withoutWorkflow = counter(
    'asset_update_events_without_workflow_total',
    'Accepted events that got no workflow: too many waited for Temporal, or Temporal refused the start',
  );
  const attempts = histogram(
    'asset_update_attempt_duration_seconds',
    'Attempts by outcome and error class',
    latencyBuckets,
    { outcome: ['failed'], error: attemptErrors },
  );
  attempts.zero({ outcome: 'delivered', error: '' });
  const failures = counter('asset_update_attempt_failures_total', 'Failed attempts, by what went wrong', {
    detail: allDetails,
  });
  const ownFailures = counter(
    'asset_update_own_failures_total',
    'Attempts that could not be made because of an own failure: they count against no endpoint',
    { cause: ownFailureCauses },
  );
  const byPriority = { priority: ['live', 'backfill'] };
  const firstAttempts = histogram(
    'asset_update_accept_to_first_attempt_seconds',
    'From the acceptance of an event to the beginning of its first attempt',
    lagBuckets,
    byPriority,
  );
  const deliveries = histogram(
    'asset_update_accept_to_delivered_seconds',
    'From the acceptance of an event to the 2xx',
    lagBuckets,
    byPriority,
  );
  const ended = counter(
    'asset_update_notifications_ended_total',
    'Notifications by the state in which they ended',
    { state: ['delivered', 'superseded', 'cancelled', 'failed', 'not_needed'] },
  );
  const entered = counter(
    'asset_update_endpoint_state_changes_total',
    'Changes of state of endpoints, by the state entered',
    { state: siteStates },
  );
  const redisCommands = histogram(
    'asset_update_redis_command_duration_seconds',
    'Redis commands from sending to the answer, failures included',
    redisBuckets,
  );
  const redisErrors = counter('asset_update_redis_errors_total', 'Redis commands that failed, by cause', {
    error: redisReasons,
  });
  const temporalCalls = histogram(
    'asset_update_temporal_call_duration_seconds',
    'Temporal calls about workflows, failures included',
    latencyBuckets,
    { call: observedCalls },
  );
  const temporalErrors = counter(
    'asset_update_temporal_errors_total',
    'Temporal calls about workflows that failed, by cause',
    { call: observedCalls, error: temporalErrorClasses },
  );

  const reads = new Map<WatchedMetric, Read<number>>();

  return {
    registry,
    redisObserver: {
      answered: (milliseconds) => redisCommands.observe(milliseconds / 1000),
      refused: (error) => redisErrors.inc({ error }),
    } satisfies CommandObserver,
    temporalAnswered: ((call, milliseconds, error) => {
      temporalCalls.observe({ call }, milliseconds / 1000);
      if (error !== undefined) temporalErrors.inc({ call, error });
    }) satisfies CallObserver,
    attempted: (
      { ok, error = '', detail }: { ok: boolean; error?: string; detail?: string },
      milliseconds: number,
    ) => {
      attempts.observe({ outcome: ok ? 'delivered' : 'failed', error }, milliseconds / 1000);
      if (detail !== undefined) failures.inc({ detail });
    },
    ownFailure: (cause: OwnFailureCause) => ownFailures.inc({ cause }),
    firstAttempted: (priority: string, milliseconds: number) =>
      firstAttempts.observe({ priority }, Math.max(0, milliseconds) / 1000),
    delivered: (priority: string, milliseconds: number) =>
      deliveries.observe({ priority }, Math.max(0, milliseconds) / 1000),
    ended: (state: string, count = 1) => ended.inc({ state }, count),
    entered: (state: string) => entered.inc({ state }),
    answered: (request: { method: string; route: string; status: number }, milliseconds: number) =>
      requests.observe(request, milliseconds / 1000),
    started: (events: number) => groups.observe(events),
    withoutWorkflow: (events: number) => withoutWorkflow.inc(events),
    tokenMinted: () => tokens.inc(),
    eventAnswered: (result: EventResult) => events.inc({ result }),
    /**
     * Shows a number of this process, read at each scrape; undefined leaves the metric out of that scrape. A second call takes the place
     * of the first.
     */
    watch(name: WatchedMetric, read: Read<number>): void {
      if (!reads.has(name)) watchNumber(registry, name, watched[name], () => reads.get(name)?.());
      reads.set(name, read);
    },
    /** Shows the clients whose attempts this process pauses after an own failure. @param read gives the cause of each */
    watchPauses(read: () => Iterable<OwnFailureCause>): void {
      const help = 'Clients whose attempts this process cannot make now';
      const count = () => countBy(read());
      watchEach(registry, 'asset_update_own_failure_clients', help, { cause: ownFailureCauses }, count);
    },
  };
}

type Read<Value> = () => Value | undefined | Promise<Value | undefined>;

/** Shows a number for each value of one label: 0 where `read` has none. `read` answering undefined leaves all out. */
export function watchEach(
  registry: Registry,
  name: string,
  help: string,
  label: Labels,
  read: Read<Record<string, number>>,
): void {
  new Gauge({
    name,
    help,
    labelNames: Object.keys(label),
    registers: [registry],
    async collect() {
      const numbers = await read();
      for (const labels of combinations(label)) {
        if (numbers === undefined) this.remove(labels);
        else this.set(labels, numbers[Object.values(labels)[0] ?? ''] ?? 0);
      }
    },
  });
}

/** Shows one number, without a label; undefined leaves it out. */
export const watchNumber = (registry: Registry, name: string, help: string, read: Read<number>): void =>
  watchEach(registry, name, help, {}, async () => {
    const value = await read();
    return value === undefined ? undefined : { '': value };
  });

function countBy(values: Iterable<string>): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const value of values) counts[value] = (counts[value] ?? 0) + 1;
  return counts;
}

function combinations(labels: Labels): Record<string, string>[] {
  let all: Record<string, string>[] = [{}];
  for (const [name, values] of Object.entries(labels))
    all = all.flatMap((some) => values.map((value) => ({ ...some, [name]: value })));
  return all;
}
