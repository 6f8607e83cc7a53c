/** Reads the metrics that docs/reference/metrics.md names, and those in an expression of Prometheus. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

export const projectDir = join(import.meta.dirname, '../..');

/** The names in the first column of its tables, without labels. */
export async function metricsOfThePage(): Promise<Set<string>> {
  const page = await readFile(join(projectDir, 'docs/reference/metrics.md'), 'utf8');
  const columns = page
    .split('\n')
    .flatMap((line) => /^\| (`.*?) \| (?:gauge|counter|histogram) \|/.exec(line)?.[1] ?? []);
  return new Set(
    columns.flatMap((column) =>
      [...column.matchAll(/`(\w+)(?:\{[\w,]+\})?`/g)].map(([, name]) => name as string),
    ),
  );
}

/** The names of metrics in an expression, a histogram's without the end of its series. */
export function metricsOf(expr: string): string[] {
  const names = expr.match(/\b(?:asset_update|nodejs|process|temporal)_\w+/g) ?? [];
  return names.map((name) => name.replace(/_(?:bucket|sum|count)$/, ''));
}

export interface Dashboard {
  title: string;
  uid: string;
  panels: {
    id: number;
    title: string;
    gridPos: { x: number; y: number; w: number; h: number };
    targets?: { expr: string }[];
  }[];
}

export async function dashboards(): Promise<Dashboard[]> {
  const files = ['deliveries', 'processes'].map((name) => join(projectDir, `deploy/grafana/${name}.json`));
  return await Promise.all(files.map(async (file) => JSON.parse(await readFile(file, 'utf8')) as Dashboard));
}

/** Every expression of the dashboards. */
export async function queriesOfDashboards(): Promise<string[]> {
  return (await dashboards()).flatMap(({ panels }) =>
    panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  );
}
