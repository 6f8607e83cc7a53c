import { Gauge, type Registry } from 'prom-client';
import type { Counts } from '../redis/records/counts.js';

const stated = 'asset_update_endpoints';

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
  const registers = [registry];
  for (const [name, { help, of }] of Object.entries(gauges)) {
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        const value = of(await counts());
        if (value === undefined) this.remove();
        else this.set(value);
      },
    });
  }
  new Gauge({
    name: stated,
    help: 'Registrations by the state of their endpoint',
    labelNames: ['state'],
    registers,
    async collect() {
      const { counted } = await counts();
      this.reset();
      for (const [state, count] of Object.entries(counted?.endpoints ?? {})) this.set({ state }, count);
    },
  });
}
