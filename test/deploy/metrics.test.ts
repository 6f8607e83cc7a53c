import assert from 'node:assert/strict';
import { createMetrics, watchCounts, watchedMetrics } from '../../src/metrics.js';
import { type Service, startService } from '../program.js';
import { until } from '../receiver.js';
import { metricsOf, metricsOfThePage, queriesOfDashboards, rules, sectionsOf } from './metricsPage.js';

describe('docs/reference/metrics.md', () => {
  const page = metricsOfThePage();

  const namesIn = (text: string) => [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name as string);
  const ours = async () => {
    const all = createMetrics();
    watchCounts(all, () => Promise.resolve({}));
    for (const name of watchedMetrics) all.watch(name, () => 0);
    return namesIn(await all.registry.metrics());
  };

  it("has every metric of the code and of Node's, and no other", async () => {
    const inPage = [...page].filter((name) => !name.startsWith('temporal_'));
    assert.deepEqual(inPage.sort(), (await ours()).sort());
  });

  describe("of Temporal's SDK", () => {
    let service: Service;
    before(async () => {
      service = await startService();
    });
    after(() => service.stop());

    it('has every metric that a running service shows at the same address', async () => {
      const scrape = async () => await (await fetch(`${service.adminUrl}/metrics`)).text();
      const text = await until('a workflow has ended, and a sweep has counted', async () => {
        const now = await scrape();
        // What the sweep counted is read before the part of Temporal's SDK: it may come with the next scrape.
        const isCounted = /^asset_update_owed_notifications /m.test(now);
        return isCounted && now.includes('temporal_workflow_completed_total') && now;
      });
      const names = namesIn(text);
      assert.deepEqual(
        names.filter((name) => !page.has(name)),
        [],
      );
      assert.equal(new Set(names).size, names.length, 'none twice');
    });
  });

  it('has every metric that a dashboard uses', () => {
    const queries = queriesOfDashboards();
    assert.ok(queries.length > 50);
    for (const expr of queries)
      for (const name of metricsOf(expr)) assert.ok(page.has(name), `${name}: ${expr}`);
  });

  it('and the dashboards show every metric of the service', () => {
    const shown = new Set(queriesOfDashboards().flatMap(metricsOf));
    const missing = [...page].filter((name) => name.startsWith('asset_update_') && !shown.has(name));
    assert.deepEqual(missing, []);
  });

  it('has every metric of the rules of alerts', () => {
    for (const { alert, expr } of rules()) {
      const names = metricsOf(expr);
      assert.ok(names.length > 0 || expr.startsWith('up{'), alert);
      for (const name of names) assert.ok(page.has(name), `${alert}: ${name}`);
    }
  });
});

describe('Prometheus alerts', () => {
  it('each lead to a section of docs/guides/runbook.md, which names them', () => {
    const sections = sectionsOf('docs/guides/runbook.md');
    for (const { alert, annotations } of rules()) {
      const [file, anchor = ''] = annotations.runbook_url.split('#');
      assert.equal(file, 'docs/guides/runbook.md', alert);
      assert.ok(sections.get(anchor)?.includes(`\`${alert}\``), `${anchor} does not name ${alert}`);
    }
  });
});
