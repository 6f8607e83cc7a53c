import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { createMetrics } from '../../../src/metrics.js';
import { chartDir, isKnown } from './tools.js';

interface Values {
  config?: Record<string, unknown>;
  secretEnv?: Record<string, unknown>;
  all?: { autoscaling?: { podMetrics?: Record<string, unknown> } };
}

const read = (file: string): string => readFileSync(join(chartDir, file), 'utf8');
const examples = readdirSync(join(chartDir, 'examples'));
const files = ['values.yaml', ...examples.map((file) => `examples/${file}`)];

describe('the values of the Helm chart', () => {
  it('name only settings of the service', () => {
    for (const file of files) {
      const { config = {}, secretEnv = {} } = parse(read(file), { merge: true }) as Values;
      const unknown = [...Object.keys(config), ...Object.keys(secretEnv)].filter((name) => !isKnown(name));
      assert.deepEqual(unknown, [], file);
    }
  });

  it('scale by metrics that the service has', async () => {
    const metrics = createMetrics();
    const text = await metrics.registry.metrics();
    const named = files.flatMap((file) => {
      const { all } = parse(read(file)) as Values;
      return Object.keys(all?.autoscaling?.podMetrics ?? {});
    });
    assert.deepEqual(named, ['nodejs_eventloop_lag_p99_seconds']);
    for (const name of named) assert.ok(text.includes(`# TYPE ${name} gauge`), name);
  });

  it('are all in the table of the chart’s README, which links every example', () => {
    const readme = read('README.md');
    const rows = new Set(
      [...readme.matchAll(/^\| (.+?) \|/gm)].flatMap(([, cell = '']) =>
        [...cell.matchAll(/`([A-Za-z.]+)`/g)].map(([, name]) => name),
      ),
    );
    const missing = leaves(parse(read('values.yaml'))).filter((name) => !rows.has(name));
    assert.deepEqual(missing, []);
    for (const file of examples) assert.ok(readme.includes(`(examples/${file})`), file);
  });

  it('carry the alerts of deploy/prometheus/alerts.yml, word for word', () => {
    assert.equal(read('files/alerts.yml'), readFileSync('deploy/prometheus/alerts.yml', 'utf8'));
  });
});

/** `image.tag`; of the three roles, which have the same values, only `all`; maps that users fill in by their own name. */
function leaves(values: object, before = ''): string[] {
  return Object.entries(values).flatMap(([name, value]: [string, unknown]) => {
    const path = before + name;
    if (['api', 'worker'].includes(path)) return [];
    const isFilledIn = ['config', 'secretEnv', 'all.resources'].includes(path);
    const isGroup = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isGroup && !isFilledIn && Object.keys(value).length > 0 ? leaves(value, `${path}.`) : [path];
  });
}
