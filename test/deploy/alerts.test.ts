import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { type Rule, rules } from './alertRules.js';
import { metricsOf, metricsOfThePage, projectDir } from './metricsPage.js';

describe('Prometheus alerts', () => {
  let all: Rule[];
  before(async () => {
    all = await rules();
  });

  it('use metrics that the service has', async () => {
    const page = await metricsOfThePage();
    for (const { alert, expr } of all) {
      const names = metricsOf(expr);
      assert.ok(names.length > 0 || expr.startsWith('up{'), alert);
      for (const name of names) assert.ok(page.has(name), `${alert}: ${name}`);
    }
  });

  it('each lead to a section of docs/guides/runbook.md, which names them', async () => {
    const page = await readFile(join(projectDir, 'docs/guides/runbook.md'), 'utf8');
    const sections = new Map(
      page.split(/^## /m).map((text) => {
        const title = text.split('\n')[0] ?? '';
        return [
          title
            .toLowerCase()
            .replaceAll(/[^a-z0-9 -]/g, '')
            .replaceAll(' ', '-'),
          text,
        ];
      }),
    );
    for (const { alert, annotations } of all) {
      const [file, anchor = ''] = annotations.runbook_url.split('#');
      assert.equal(file, 'docs/guides/runbook.md', alert);
      const section = sections.get(anchor);
      assert.ok(section, `${alert}: there is no section ${anchor}`);
      assert.ok(section.includes(`\`${alert}\``), `${anchor} does not name ${alert}`);
    }
    const known = new Set(all.map(({ alert }) => alert));
    for (const [name] of page.matchAll(/AssetUpdate\w+/g)) assert.ok(known.has(name), `${name} is no alert`);
  });

  it('each have a test of their rule', async () => {
    const text = await readFile(join(projectDir, 'deploy/prometheus/alerts.test.yml'), 'utf8');
    const { tests } = parse(text) as { tests: { alert_rule_test: { alertname: string }[] }[] };
    const tested = tests.flatMap(({ alert_rule_test: its }) => its.map(({ alertname }) => alertname));
    assert.deepEqual([...new Set(tested)].sort(), all.map(({ alert }) => alert).sort());
  });

  it('fire if no sweep has completed for 3 minutes, or none ever has', () => {
    const rule = (alert: string) => all.find((each) => each.alert === alert);
    const metric = 'asset_update_sweep_completed_timestamp_seconds';
    assert.equal(rule('AssetUpdateSweepStalled')?.expr, `time() - max(${metric}) > 180`);
    assert.equal(rule('AssetUpdateSweepStalled')?.for, undefined);
    assert.equal(rule('AssetUpdateAccountingAbsent')?.expr, `absent(${metric})`);
    assert.equal(rule('AssetUpdateAccountingAbsent')?.for, '3m');
  });
});
