/** The metrics of what the stores say: what a process has learned of its Redis and of Temporal, and the counts of the sweep. */
import type { Registry } from 'prom-client';
import { watchEach, watchNumber } from './metrics.js';
import { attemptErrors } from './outgoing/details.js';
import type { StoreHealth } from './redis/connection/health.js';
import { ofCommands, redisReasons } from './redis/connection/unavailable.js';
import type { Counts } from './redis/records/counts.js';
import { endpointStates } from './redis/records/endpoint.js';
import { temporalErrorClasses } from './temporal/connection.js';
import type { TemporalHealth } from './temporal/health.js';

/** Shows what this process has learned of its Redis. Memory and evictions are of the server that is worst off. */
export function watchStoreHealth({ registry }: { registry: Registry }, health: StoreHealth): void {
  const most = (field: 'usedBytes' | 'limitBytes' | 'evictedKeys') => () => {
    const known = [...health.facts.values()].flatMap((facts) => facts[field] ?? []);
    return known.length === 0 ? undefined : Math.max(...known);
  };
  const watch = (name: string, help: string, read: () => number | undefined) =>
    watchNumber(registry, name, help, read);
  watch('asset_update_redis_memory_used_bytes', 'Memory that Redis uses', most('usedBytes'));
  watch('asset_update_redis_memory_limit_bytes', 'The maxmemory of Redis; 0: none', most('limitBytes'));
  watch('asset_update_redis_evicted_keys', 'Keys that Redis has evicted', most('evictedKeys'));
  watch('asset_update_redis_data_lost', 'Whether the store has lost its data', () =>
    Number(health.isEmptied),
  );
  const refusing = 'Whether Redis does not serve now, by reason';
  watchEach(registry, 'asset_update_redis_refusing', refusing, { reason: redisReasons }, () => {
    const unsafe = health.notDurable.size > 0 ? ['not_durable'] : [];
    return Object.fromEntries([...health.reasons(), ...unsafe].map((reason) => [reason, 1]));
  });
  const lesser = 'Whether Redis refuses only what no event needs, by reason';
  watchEach(registry, 'asset_update_redis_refusing_lesser', lesser, { reason: ofCommands }, () =>
    Object.fromEntries(health.lesserReasons().map((reason) => [reason, 1])),
  );
}

/** Shows why Temporal does not serve this process. */
export function watchTemporal(
  { registry }: { registry: Registry },
  health: TemporalHealth,
  isServed: () => Promise<boolean>,
): void {
  const help = 'Whether Temporal does not serve this process now, by reason';
  watchEach(registry, 'asset_update_temporal_refusing', help, { reason: temporalErrorClasses }, async () => {
    if (await isServed()) return {};
    const reasons = health.refusing().map(({ reason }) => reason);
    // An answer that is late has given no reason yet.
    return Object.fromEntries([...reasons, ...(reasons.length > 0 ? [] : ['away'])].map((one) => [one, 1]));
  });
}

const counted: Record<string, [help: string, value: (counts: Counts) => number | undefined]> = {
  asset_update_owed_notifications: ['Notifications that clients are owed', (c) => c.counted?.owed],
  asset_update_owed_clients: ['Clients that are owed something', (c) => c.counted?.owedClients],
  asset_update_failing_owed_notifications: [
    'Notifications that clients with a failing endpoint are owed',
    (c) => c.counted?.failingOwed,
  ],
  asset_update_failing_accounts: [
    'Accounts with a failing endpoint that is owed something',
    (c) => c.counted?.failingAccounts,
  ],
  asset_update_attempted_endpoints: [
    'Registrations to which an attempt was made in the last 24 hours',
    (c) => c.endpoints?.attempted,
  ],
  asset_update_attempted_accounts: ['Accounts of these registrations', (c) => c.endpoints?.attemptedAccounts],
  asset_update_overdue_clients: [
    'Clients with owed assets that could have been sent more than 2 minutes ago',
    (c) => c.counted?.overdueClients,
  ],
  asset_update_oldest_overdue_seconds: [
    'For how long something could have been sent to the client furthest behind; 0 if to none',
    (c) => c.counted && Math.max(c.counted.oldestOverdueMs, 0) / 1000,
  ],
  asset_update_worst_delivery_lag_seconds: [
    'How long ago all had arrived at the client furthest behind that is neither paused nor suspended',
    (c) => c.counted && Math.max(c.counted.undeliveredMs ?? 0, 0) / 1000,
  ],
  asset_update_catch_ups_running: ['Running catch-up workflows', (c) => c.counted?.catchUps],
  asset_update_counts_age_seconds: [
    'How long ago a sweep counted owed notifications and catch-ups',
    (c) => c.counted && c.counted.ageMs / 1000,
  ],
  asset_update_broken_clients: [
    'Clients whose keys cannot be read or contradict each other; must stay 0',
    (c) => c.ended?.brokenClients,
  ],
  asset_update_failed_assets: [
    'Assets that have failed in the last 24 hours and were neither recovered, replaced nor dismissed',
    (c) => c.endpoints?.failedAssets,
  ],
  asset_update_kept_failed_assets: [
    'Assets that have failed and were neither recovered, replaced nor dismissed',
    (c) => c.endpoints?.keptFailed,
  ],
  asset_update_sweep_completed_timestamp_seconds: [
    'When a sweep last completed',
    (c) => c.ended && c.ended.atMs / 1000,
  ],
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
  for (const [name, [help, value]] of Object.entries(counted))
    watchNumber(registry, name, help, async () => value(await counts()));
  const byState = 'Registrations by the state of their endpoint';
  watchEach(registry, 'asset_update_endpoints', byState, { state: endpointStates }, async () => {
    return (await counts()).endpoints;
  });
  const byError = 'Failing endpoints that are owed something, by the class of their last failure';
  watchEach(registry, 'asset_update_failing_endpoints', byError, { error: attemptErrors }, async () => {
    return (await counts()).counted?.failing;
  });
}
