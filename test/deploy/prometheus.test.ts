/** The metrics of a running service, and the rules and the dashboards on a real Prometheus that it feeds. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { freePort } from '../../local/ports.js';
import { projectDir } from '../../src/operator/npmStart.js';
import { startProgram, startService } from '../program.js';
import { until } from '../receiver.js';
import { newFolder, opened, openForSuite } from '../servers.js';

const read = (file: string): string => readFileSync(join(projectDir, 'deploy', file), 'utf8');

interface Dashboard {
  panels: { targets?: { expr: string }[] }[];
}
const ofDashboards = ['deliveries', 'processes'].flatMap((name) =>
  (JSON.parse(read(`grafana/${name}.json`)) as Dashboard).panels.flatMap(({ targets = [] }) =>
    targets.map(({ expr }) => expr),
  ),
);
const { groups } = parse(read('prometheus/alerts.yml')) as { groups: { rules: { expr: string }[] }[] };
const ofAlerts = groups.flatMap(({ rules }) => rules.map(({ expr }) => expr));

describe('A running service', () => {
  const service = openForSuite(() => startService());

  /** The names of the metrics in an expression, a histogram's without the end of its series. */
  function metricsOf(expr: string): string[] {
    const names = expr.match(/\b(?:asset_update|nodejs|process|temporal)_\w+/g) ?? [];
    return names.map((name) => name.replace(/_(?:bucket|sum|count)$/, ''));
  }

  it("has at GET /metrics every metric that a dashboard or an alert asks for, those of Temporal's SDK among them, and none twice", async () => {
    const asked = new Set([...ofDashboards, ...ofAlerts].flatMap(metricsOf));
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
    const page = readFileSync(join(projectDir, 'docs/reference/metrics.md'), 'utf8');
    const rows = page.split('\n').filter((line) => line.startsWith('| `'));
    const named = rows.flatMap((row) => row.split(' | ')[0]?.match(/\basset_update_\w+/g) ?? []);
    const text = await (await fetch(`${service.adminUrl}/metrics`)).text();
    const served = [...text.matchAll(/^# TYPE (asset_update_\w+) /gm)].map(([, name]) => name);
    assert.deepEqual(named.toSorted(), served.toSorted());
  });

  it('serves the runbook to which the alerts lead', async () => {
    const page = await (await fetch(`${service.adminUrl}/runbook`)).text();
    assert.match(page, /<h2 id="redis-away">Redis away<\/h2>/);
  });

  it('lets Prometheus answer every query of the dashboards and the rules', async function () {
    if (spawnSync('prometheus', ['--version']).status !== 0) this.skip();
    this.timeout(120_000);
    const url = await startPrometheus(service.adminUrl);
    const queries = [...ofDashboards, ...ofAlerts.flatMap(askedBy)];
    for (const query of new Set(queries)) {
      await until(`an answer to ${query}`, () => hasAnswer(url, query), 90_000);
    }
  });
});

/** Starts a real Prometheus that scrapes a service each second. @returns its URL */
async function startPrometheus(adminUrl: string): Promise<string> {
  const dir = await newFolder();
  const targets = [new URL(adminUrl).host];
  const config = {
    global: { scrape_interval: '1s' },
    scrape_configs: [{ job_name: 'asset-update', static_configs: [{ targets }] }],
  };
  // JSON is YAML, too.
  await writeFile(join(dir, 'prometheus.yml'), JSON.stringify(config));
  const address = `127.0.0.1:${await freePort()}`;
  const named = ['config.file=prometheus.yml', 'storage.tsdb.path=data', `web.listen-address=${address}`];
  opened(
    startProgram(
      'prometheus',
      named.map((one) => `--${one}`),
      { cwd: dir },
    ),
  );
  const url = `http://${address}`;
  await until('Prometheus is ready', async () => (await fetch(`${url}/-/ready`).catch(() => undefined))?.ok);
  return url;
}

/** Returns the metrics that a rule reads, with their labels, but for any status: a service that works refuses no call. */
function askedBy(expr: string): string[] {
  const series = expr.match(/\b(?:asset_update_|nodejs_|process_|up\{)\w*(?:\{[^}]*\})?/g) ?? [];
  return series.map((one) =>
    one.startsWith('up') ? 'up' : one.replace(/status=~?"[^"]*"/, 'status=~"..."'),
  );
}

async function hasAnswer(url: string, query: string): Promise<boolean> {
  const asked = query.replaceAll('$__rate_interval', '10s').replaceAll(/\[\d+m\]/g, '[10s]');
  const response = await fetch(`${url}/api/v1/query?query=${encodeURIComponent(asked)}`);
  const answer = (await response.json()) as { status: string; error?: string; data?: { result: unknown[] } };
  assert.equal(answer.status, 'success', `${query}: ${answer.error}`);
  return (answer.data?.result.length ?? 0) > 0;
}
