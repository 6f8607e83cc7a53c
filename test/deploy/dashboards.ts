/** Reads what the dashboards and the rules of alerts ask Prometheus. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { projectDir } from '../../src/operator/npmStart.js';

const read = (file: string): string => readFileSync(join(projectDir, 'deploy', file), 'utf8');

interface Dashboard {
  panels: { targets?: { expr: string }[] }[];
}

/** Returns every expression of the dashboards. */
export function queriesOfDashboards(): string[] {
  return ['deliveries', 'processes'].flatMap((name) =>
    (JSON.parse(read(`grafana/${name}.json`)) as Dashboard).panels.flatMap(({ targets = [] }) =>
      targets.map(({ expr }) => expr),
    ),
  );
}

/** Returns the expression of every alert. */
export function queriesOfAlerts(): string[] {
  const file = parse(read('prometheus/alerts.yml')) as { groups: { rules: { expr: string }[] }[] };
  return file.groups.flatMap(({ rules }) => rules.map(({ expr }) => expr));
}
