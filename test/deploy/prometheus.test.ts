/** The rules and the dashboards on a real Prometheus, fed by the running service. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../local/ports.js';
import { projectDir } from '../../src/operator/npmStart.js';
import { startService } from '../program.js';
import { until } from '../receiver.js';
import { afterTest, opened } from '../servers.js';
import { queriesOfAlerts, queriesOfDashboards } from './dashboards.js';

describe('Prometheus', () => {
  const isThere = (program: string) => spawnSync(program, ['--version']).status === 0;

  it('accepts the rules (promtool), and their tests pass', function () {
    if (!isThere('promtool')) this.skip();
    const folder = join(projectDir, 'deploy/prometheus');
    for (const args of [
      ['check', 'rules', 'alerts.yml'],
      ['test', 'rules', 'alerts.test.yml'],
    ]) {
      const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: folder, encoding: 'utf8' });
      assert.equal(status, 0, stdout + stderr);
    }
  });

  it('answers every query of the dashboards and the rules from a running service', async function () {
    if (!isThere('prometheus')) this.skip();
    this.timeout(120_000);
    const dir = await mkdtemp(join(tmpdir(), 'asset-update-prometheus-'));
    afterTest(() => rm(dir, { recursive: true, force: true }));
    const service = opened(await startService());
    const url = `http://127.0.0.1:${await freePort()}`;
    await startPrometheus(dir, url, service.adminUrl);
    const queries = [...queriesOfDashboards(), ...queriesOfAlerts().map(askedBy)];
    for (const query of new Set(queries)) {
      await until(`an answer to ${query}`, () => hasAnswer(url, query), 90_000);
    }
  });
});

async function startPrometheus(dir: string, url: string, target: string): Promise<void> {
  const config = {
    global: { scrape_interval: '1s' },
    scrape_configs: [{ job_name: 'asset-update', static_configs: [{ targets: [new URL(target).host] }] }],
  };
  // JSON is YAML, too.
  await writeFile(join(dir, 'prometheus.yml'), JSON.stringify(config));
  const child = spawn(
    'prometheus',
    [
      `--config.file=${join(dir, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(dir, 'data')}`,
      `--web.listen-address=${new URL(url).host}`,
    ],
    { stdio: 'ignore' },
  );
  afterTest(async () => {
    child.kill();
    await once(child, 'close');
  });
  await until('Prometheus is ready', async () => (await fetch(`${url}/-/ready`).catch(() => undefined))?.ok);
}

/** Returns the expression of a rule without its thresholds, and for any status: a service that works answers no 500. */
function askedBy(expr: string): string {
  return expr
    .replaceAll(/ (?:>|==) [\d.]+(?=\)|$)/g, '')
    .replace(/^absent\((.*)\)$/, '$1')
    .replaceAll('status="500"', 'status=~"..."');
}

async function hasAnswer(url: string, query: string): Promise<boolean> {
  const asked = query.replaceAll('$__rate_interval', '10s').replaceAll(/\[\d+m\]/g, '[10s]');
  const response = await fetch(`${url}/api/v1/query?query=${encodeURIComponent(asked)}`);
  const answer = (await response.json()) as { status: string; error?: string; data?: { result: unknown[] } };
  assert.equal(answer.status, 'success', `${query}: ${answer.error}`);
  return (answer.data?.result.length ?? 0) > 0;
}
