import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { environmentSchema } from '../../../src/config.js';
import { schemaFile, valuesSchema } from './generated.js';
import { chartDir, isKnown } from './tools.js';

interface Values {
  config?: Record<string, unknown>;
  secretEnv?: Record<string, unknown>;
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

  it('may be any text that the service takes, lists among them', () => {
    const { config } = JSON.parse(read('values.schema.json')).properties;
    for (const [name, of] of Object.entries(environmentSchema.shape)) {
      // The chart computes with these.
      if (/PORT$/.test(name)) continue;
      const taken = ['', '1', '40', '0.5', '40,50', '40, 50', 'true', 'x'].filter(
        (text) => of.safeParse(text).success,
      );
      const validate = new Ajv({ strict: false }).compile(config.properties[name]);
      const refused = taken.filter((text) => !validate(text));
      assert.deepEqual(refused, [], name);
    }
  });

  it('have a schema that knows every setting of the service, as it is made of them', () => {
    assert.deepEqual(
      JSON.parse(readFileSync(schemaFile, 'utf8')),
      valuesSchema(),
      'npx tsx test/deploy/helm/generated.ts',
    );
  });

  it('carry the alerts of deploy/prometheus/alerts.yml, word for word', () => {
    assert.equal(read('files/alerts.yml'), readFileSync('deploy/prometheus/alerts.yml', 'utf8'));
  });
});
