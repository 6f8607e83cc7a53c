import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { projectDir } from './metricsPage.js';

export interface Rule {
  alert: string;
  expr: string;
  for?: string;
  annotations: { summary: string; description: string; runbook_url: string };
}

/** The rules of deploy/prometheus/alerts.yml. */
export async function rules(): Promise<Rule[]> {
  const file = await readFile(join(projectDir, 'deploy/prometheus/alerts.yml'), 'utf8');
  return (parse(file) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);
}
