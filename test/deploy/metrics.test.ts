import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { createMetrics, watchCounts, watchedMetrics } from '../../src/metrics.js';
import { type Service, startService } from '../program.js';
import { until } from '../receiver.js';
import { dashboards, metricsOf, metricsOfThePage, queriesOfDashboards } from './metricsPage.js';

describe('docs/reference/metrics.md', () => {
  let page: Set<string>;
  before(async () => {
    page = await metricsOfThePage();
  });

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

    it("has none that the SDK's native part does not know", async () => {
      const bridge = dirname(createRequire(import.meta.url).resolve('@temporalio/core-bridge'));
      const releases = { x64: 'x86_64', arm64: 'aarch64' }[process.arch as 'x64' | 'arm64'];
      const system = { linux: 'unknown-linux-gnu', darwin: 'apple-darwin' }[
        process.platform as 'linux' | 'darwin'
      ];
      const native = await readFile(join(bridge, `releases/${releases}-${system}/index.node`));
      const sdk = [...page].filter((name) => name.startsWith('temporal_'));
      assert.ok(sdk.length > 20);
      for (const name of sdk) {
        const base = name.replace(/^temporal_/, '').replace(/_(?:total|seconds)$/, '');
        // Some of its own names end in _total.
        assert.ok(native.includes(base), name);
      }
    });
  });

  it('has every metric that a dashboard uses', async () => {
    const queries = await queriesOfDashboards();
    assert.ok(queries.length > 50);
    for (const expr of queries)
      for (const name of metricsOf(expr)) assert.ok(page.has(name), `${name}: ${expr}`);
  });

  it('and the dashboards show every metric of the service', async () => {
    const shown = new Set((await queriesOfDashboards()).flatMap(metricsOf));
    const missing = [...page].filter((name) => name.startsWith('asset_update_') && !shown.has(name));
    assert.deepEqual(missing, []);
  });

  it('the panels of a dashboard have unique ids and do not overlap', async () => {
    for (const { title, panels } of await dashboards()) {
      assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length, title);
      for (const [i, { gridPos: a, title: one }] of panels.entries()) {
        assert.ok(a.x + a.w <= 24, one);
        for (const { gridPos: b, title: other } of panels.slice(i + 1)) {
          const apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y;
          assert.ok(apart, `${title}: ${one}, ${other}`);
        }
      }
    }
  });
});
