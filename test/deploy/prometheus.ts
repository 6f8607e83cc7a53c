/** A real Prometheus that scrapes running services. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePort } from '../../local/ports.js';
import { projectDir } from '../../src/operator/npmStart.js';
import { startProgram } from '../program.js';
import { until } from '../receiver.js';
import { everySeconds } from './life.js';

/** @param isLong it scrapes as docs/guides/operations.md says, and has the shipped rules */
export async function startPrometheus(dir: string, adminUrls: readonly string[], isLong = false) {
  const every = isLong ? `${everySeconds}s` : '1s';
  const config = {
    global: { scrape_interval: every, evaluation_interval: every },
    scrape_configs: [
      { job_name: 'asset-update', static_configs: [{ targets: adminUrls.map((one) => new URL(one).host) }] },
    ],
    rule_files: isLong ? [join(projectDir, 'deploy/prometheus/alerts.yml')] : [],
  };
  await mkdir(dir, { recursive: true });
  // JSON is YAML, too.
  await writeFile(join(dir, 'prometheus.yml'), JSON.stringify(config));
  const url = `http://127.0.0.1:${await freePort()}`;
  const args = [
    `--config.file=${join(dir, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(dir, 'data')}`,
    `--web.listen-address=${new URL(url).host}`,
  ];
  const program = startProgram('prometheus', args);
  await until('Prometheus is ready', async () => (await fetch(`${url}/-/ready`).catch(() => undefined))?.ok);
  return Object.assign(program, { url });
}

/** Says which alerts have fired, and from which second to which. */
export async function firingIn({ url }: { url: string }, beganMs: number): Promise<string> {
  const [start, end] = [beganMs / 1000, Date.now() / 1000];
  const query = new URLSearchParams({
    query: 'ALERTS{alertstate="firing"}',
    start: `${start}`,
    end: `${end}`,
    step: '5',
  });
  const answer = await fetch(`${url}/api/v1/query_range?${query}`);
  const { data } = (await answer.json()) as {
    data: { result: { metric: Record<string, string>; values: [number, string][] }[] };
  };
  const told = data.result.map(({ metric: { alertname, instance = '' }, values }) => {
    const seconds = values.map(([at]) => Math.round(at - start));
    return `${alertname} ${instance} ${seconds[0]} to ${seconds.at(-1)} s`;
  });
  return told.join('; ') || 'nothing fires';
}
