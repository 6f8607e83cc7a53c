/** The dashboards under the types that Grafana generates from its schema, which also refuse a member that they do not know. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/npmStart.js';

const composable = '@grafana/schema/dist/esm/raw/composable';
const types = `
import type { Dashboard, DataSourceRef, Panel, RowPanel } from '@grafana/schema';
import type { Options as Stat } from '${composable}/stat/panelcfg/x/StatPanelCfg_types.gen';
import type { FieldConfig, Options as Series } from '${composable}/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
/** As JSON: an enum is one of its values, and what has a default may be absent. */
type Json<T> = T extends string ? \`\${T}\` : T extends (infer E)[] ? Json<E>[] : T extends object ? { [K in keyof T]?: Json<T[K]> } : T;
type Target = { refId: string; datasource: DataSourceRef; expr: string; legendFormat: string; range: boolean };
type Of<Type extends string, Options, Custom> = Json<Omit<Panel<Options, Custom>, 'type' | 'targets' | 'options'>> &
  { type: Type; targets: Target[]; options: Json<Options> };
type Panels = Of<'stat', Stat, Record<string, never>> | Of<'timeseries', Series, FieldConfig> | Json<RowPanel>;
export const dashboard: Json<Omit<Dashboard, 'panels'>> & { panels: Panels[] } =`;

describe('The dashboards of deploy/grafana', () => {
  // In the project's folder, where the package is found.
  const dir = mkdtempSync(join(projectDir, 'dist/grafana-'));
  after(() => rmSync(dir, { recursive: true }));

  it('are valid', () => {
    const files = ['deliveries', 'processes'].map((name) => {
      const file = join(dir, `${name}.mts`);
      writeFileSync(file, types + readFileSync(join(projectDir, `deploy/grafana/${name}.json`), 'utf8'));
      return file;
    });
    const options = '--ignoreConfig --noEmit --strict --skipLibCheck --module nodenext --types'.split(' ');
    const tsc = join(projectDir, 'node_modules/typescript/bin/tsc');
    const args = [tsc, ...options, '', ...files];
    const { stdout, status } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    assert.deepEqual([status, stdout], [0, '']);
  }).timeout(60_000);
});
