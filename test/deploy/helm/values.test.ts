import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
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

  it('have settings that the schema of the values allows', () => {
    const { config: ofConfig } = JSON.parse(read('values.schema.json')).properties;
    const validate = new Ajv({ strict: false }).compile(ofConfig);
    const defaults = (parse(read('values.yaml')) as Values).config;
    for (const file of files) {
      const all = { ...defaults, ...(parse(read(file), { merge: true }) as Values).config };
      // For Helm null removes a default.
      const config = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null));
      assert.ok(validate(config), `${file}: ${JSON.stringify(validate.errors)}`);
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

  it('carry the alerts of deploy/prometheus/alerts.yml, word for word', () => {
    assert.equal(read('files/alerts.yml'), readFileSync('deploy/prometheus/alerts.yml', 'utf8'));
  });
});
