/** Reads the metrics that docs/reference/metrics.md names, and those in the dashboards and the rules of alerts. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

export const projectDir = join(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(join(projectDir, file), 'utf8');

/** The names in the first column of its tables, without labels. */
export function metricsOfThePage(): Set<string> {
  const columns = read('docs/reference/metrics.md')
    .split('\n')
    .flatMap((line) => /^\| (`.*?) \| (?:gauge|counter|histogram) \|/.exec(line)?.[1] ?? []);
  return new Set(
    columns.flatMap((column) =>
      [...column.matchAll(/`(\w+)(?:\{[\w,]+\})?`/g)].map(([, name]) => name as string),
    ),
  );
}

/** The names of metrics in an expression of Prometheus, a histogram's without the end of its series. */
export function metricsOf(expr: string): string[] {
  const names = expr.match(/\b(?:asset_update|nodejs|process|temporal)_\w+/g) ?? [];
  return names.map((name) => name.replace(/_(?:bucket|sum|count)$/, ''));
}

interface Dashboard {
  panels: { targets?: { expr: string }[] }[];
}

/** Every expression of the dashboards. */
export function queriesOfDashboards(): string[] {
  return ['deliveries', 'processes'].flatMap((name) =>
    (JSON.parse(read(`deploy/grafana/${name}.json`)) as Dashboard).panels.flatMap(({ targets = [] }) =>
      targets.map(({ expr }) => expr),
    ),
  );
}

export interface Rule {
  alert: string;
  expr: string;
  annotations: { runbook_url: string };
}

/** The rules of deploy/prometheus/alerts.yml. */
export function rules(): Rule[] {
  const file = parse(read('deploy/prometheus/alerts.yml')) as { groups: { rules: Rule[] }[] };
  return file.groups.flatMap((group) => group.rules);
}

/** The sections of a page, by the anchors that GitHub makes of their headings. */
export function sectionsOf(page: string): Map<string, string> {
  const anchorOf = (title = '') =>
    title
      .toLowerCase()
      .replaceAll(/[^a-z0-9 -]/g, '')
      .replaceAll(' ', '-');
  return new Map(
    read(page)
      .split(/^## /m)
      .map((text) => [anchorOf(text.split('\n')[0]), text]),
  );
}
