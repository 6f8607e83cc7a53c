import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Service, startService } from '../program.js';
import { until } from '../receiver.js';
import { queriesOfAlerts, queriesOfDashboards } from './dashboards.js';

describe('GET /metrics of a running service', () => {
  let service: Service;
  before(async () => {
    service = await startService();
  });
  after(() => service.stop());

  /** Returns the names of the metrics in an expression, a histogram's without the end of its series. */
  function metricsOf(expr: string): string[] {
    const names = expr.match(/\b(?:asset_update|nodejs|process|temporal)_\w+/g) ?? [];
    return names.map((name) => name.replace(/_(?:bucket|sum|count)$/, ''));
  }

  it("has every metric that a dashboard or an alert asks for, those of Temporal's SDK among them, and none twice", async () => {
    const asked = new Set([...queriesOfDashboards(), ...queriesOfAlerts()].flatMap(metricsOf));
    assert.ok(asked.size >= 40, `${asked.size} metrics`);
    const text = await until('a workflow has ended, and a sweep has counted', async () => {
      const now = await (await fetch(`${service.adminUrl}/metrics`)).text();
      // What the sweep counted is read before the part of Temporal's SDK: it may come with the next scrape.
      const isCounted = /^asset_update_owed_notifications /m.test(now);
      return isCounted && now.includes('temporal_workflow_completed_total') && now;
    });
    const names = [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name as string);
    const missing = [...asked].filter((name) => !names.includes(name));
    assert.deepEqual(missing, []);
    assert.equal(new Set(names).size, names.length, 'none twice');
  });

  it('has the metrics of the service that docs/reference/metrics.md names, and no other', async () => {
    const page = readFileSync(join(import.meta.dirname, '../../docs/reference/metrics.md'), 'utf8');
    const rows = page.split('\n').filter((line) => line.startsWith('| `'));
    const named = rows.flatMap((row) => row.split(' | ')[0]?.match(/\basset_update_\w+/g) ?? []);
    const text = await (await fetch(`${service.adminUrl}/metrics`)).text();
    const served = [...text.matchAll(/^# TYPE (asset_update_\w+) /gm)].map(([, name]) => name);
    assert.deepEqual(named.toSorted(), served.toSorted());
  });
});
