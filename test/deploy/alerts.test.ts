import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { createMetrics, watchedMetrics } from '../../src/metrics.js';
import { watchCounts } from '../../src/upkeep/watchCounts.js';

interface Rule {
  alert: string;
  expr: string;
  for?: string;
  annotations: { summary: string };
}

describe('Prometheus alerts', () => {
  const root = join(import.meta.dirname, '../..');
  let rules: Rule[];
  let docs: string;
  let metrics: string;
  before(async () => {
    const file = await readFile(join(root, 'deploy/prometheus/alerts.yml'), 'utf8');
    rules = (parse(file) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);
    docs = await readFile(join(root, 'docs/guides/operations.md'), 'utf8');
    const all = createMetrics();
    watchCounts(all, () => Promise.resolve({}));
    for (const name of watchedMetrics) all.watch(name, () => 0);
    metrics = await all.registry.metrics();
  });

  it('ask for metrics that the service has, and are all in docs/guides/operations.md', () => {
    for (const { alert, expr } of rules) {
      assert.ok(docs.includes(`\`${alert}\``), `${alert} is not in docs/guides/operations.md`);
      const names = expr.match(/asset_update_\w+/g) ?? [];
      assert.ok(names.length > 0, alert);
      for (const name of names) assert.ok(metrics.includes(`# TYPE ${name} `), `${alert}: ${name}`);
    }
  });

  it('every metric of the service itself is in docs/guides/operations.md', () => {
    for (const [, name] of metrics.matchAll(/^# TYPE (asset_update_\w+) /gm)) {
      assert.match(
        docs,
        new RegExp(`^\\| \`${name}[\`{]`, 'm'),
        `${name} is not in docs/guides/operations.md`,
      );
    }
  });

  it('tell that no sweep has run to its end for 3 minutes, and where none ever has', () => {
    const rule = (alert: string) => rules.find((each) => each.alert === alert);
    const metric = 'asset_update_sweep_completed_timestamp_seconds';
    assert.equal(rule('AssetUpdateSweepStalled')?.expr, `time() - max(${metric}) > 180`);
    assert.equal(rule('AssetUpdateSweepStalled')?.for, undefined);
    assert.equal(rule('AssetUpdateAccountingAbsent')?.expr, `absent(${metric})`);
    assert.equal(rule('AssetUpdateAccountingAbsent')?.for, '3m');
  });
});
