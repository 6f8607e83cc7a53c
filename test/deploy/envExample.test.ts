import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { environmentSchema, readConfig } from '../../src/config.js';

const composeOnly = ['POSTGRES_PASSWORD', 'REDIS_PASSWORD', 'TEMPORAL_UI_PORT', 'NAMESPACE_RETENTION'];
const text = readFileSync('.env.example', 'utf8');
const lines = [...text.matchAll(/^(#?)([A-Z][A-Z_]*)=(.*)$/gm)].map(([, off, name = '', value = '']) => ({
  set: off === '',
  name,
  value,
}));

describe('.env.example', () => {
  it('names every setting of the service once, and no other', () => {
    const names = lines.map(({ name }) => name).filter((name) => !composeOnly.includes(name));
    assert.deepEqual(names.sort(), Object.keys(environmentSchema.shape).sort());
  });

  it('names every variable that docker-compose.yml uses', () => {
    const asked = readFileSync('docker-compose.yml', 'utf8').matchAll(/\$\{([A-Z_]+)/g);
    const named = new Set(lines.map(({ name }) => name));
    for (const [, name = ''] of asked) assert.ok(named.has(name), name);
  });

  it('shows the default of each setting', () => {
    const defaults = readConfig({});
    for (const { name, value } of lines) {
      if (composeOnly.includes(name)) continue;
      const setting = name as keyof typeof defaults;
      assert.deepEqual(readConfig({ [name]: value })[setting], defaults[setting], name);
    }
  });

  it('holds no secret and sets only what must be filled in', () => {
    assert.deepEqual(
      lines.filter(({ set }) => set),
      [
        { set: true, name: 'POSTGRES_PASSWORD', value: '' },
        { set: true, name: 'REDIS_PASSWORD', value: '' },
        { set: true, name: 'SECRETS_KEY', value: '' },
      ],
    );
  });
});
