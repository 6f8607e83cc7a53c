import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { createMetrics } from '../../src/metrics.js';
import { watchCounts } from '../../src/watchCounts.js';

interface Rules {
  groups: { rules: { alert: string; expr: string; annotations: { summary: string } }[] }[];
}

describe('Prometheus alerts', () => {
  it('ask for metrics that the service has, and are all in docs/operations.md', async () => {
    const root = join(import.meta.dirname, '../..');
    const rules = parse(await readFile(join(root, 'deploy/prometheus/alerts.yml'), 'utf8')) as Rules;
    const docs = await readFile(join(root, 'docs/operations.md'), 'utf8');
    const metrics = createMetrics();
    watchCounts(metrics, () => Promise.resolve({}));
    metrics.watch('asset_update_sweep_schedule_paused', () => 0);
    const text = await metrics.registry.metrics();
    for (const { alert, expr } of rules.groups.flatMap((group) => group.rules)) {
      assert.ok(docs.includes(`\`${alert}\``), `${alert} is not in docs/operations.md`);
      const names = expr.match(/asset_update_\w+/g) ?? [];
      assert.ok(names.length > 0, alert);
      for (const name of names) assert.ok(text.includes(`# TYPE ${name} `), `${alert}: ${name}`);
    }
  });
});
