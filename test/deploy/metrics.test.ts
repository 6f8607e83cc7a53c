import assert from 'node:assert/strict';
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
    assert.deepEqual(
      [...asked].filter((name) => !names.includes(name)),
      [],
    );
    assert.equal(new Set(names).size, names.length, 'none twice');
  });
});
