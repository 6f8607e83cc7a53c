import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/running/projectDir.js';
import { answersOk } from '../answersOk.js';
import { type Child, startChild, waitUntilReady } from '../child.js';

export interface PrometheusOptions {
  /** The folder of its configuration and its data. */
  dir: string;
  port: number;
  program: string;
  /** Addresses of the service's metrics: `host:port`. */
  targets: readonly string[];
  logFile: string;
  onStart?: ((child: Child) => void) | undefined;
}

/** Starts Prometheus with the rules of `deploy/prometheus`; resolves once it is ready. */
export async function startPrometheus(options: PrometheusOptions): Promise<Child> {
  const { dir, port, program, targets, logFile, onStart } = options;
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const file = join(dir, 'prometheus.yml');
  // JSON is valid YAML.
  const config = {
    global: { scrape_interval: '5s', evaluation_interval: '15s' },
    rule_files: [join(projectDir, 'deploy/prometheus/alerts.yml')],
    scrape_configs: [{ job_name: 'asset-update', static_configs: [{ targets }] }],
  };
  writeFileSync(file, JSON.stringify(config, null, 2));
  const child = await startChild({
    name: 'prometheus',
    command: program,
    args: [
      `--config.file=${file}`,
      `--storage.tsdb.path=${join(dir, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=warn',
    ],
    logFile,
    cwd: dir,
    onStart,
  });
  await waitUntilReady(child, () => answersOk(`http://127.0.0.1:${port}/-/ready`), 30_000);
  return child;
}
