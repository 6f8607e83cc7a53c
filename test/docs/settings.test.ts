import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { environmentSchema, readConfig } from '../../src/config.js';
import { codeOf, readPage, root, rowsOf, section } from './tables.js';

const page = readPage('docs/reference/settings.md');
const rows = rowsOf(section(page, 'Service')).map(([name, value, unit = '', meaning = '']) => ({
  name: codeOf(name) ?? '',
  value: codeOf(value),
  unit,
  meaning,
}));

describe('docs/reference/settings.md', () => {
  it('has one row for each setting of the service, and no other', () => {
    const names = rows.map(({ name }) => name);
    assert.deepEqual(names.sort(), Object.keys(environmentSchema.shape).sort());
  });

  it('shows the default of each', () => {
    const defaults = readConfig({});
    for (const { name, value } of rows) {
      const setting = name as keyof typeof defaults;
      if (value === undefined) assert.deepEqual([defaults[setting] ?? []].flat().join(''), '', name);
      else assert.deepEqual(readConfig({ [name]: value })[setting], defaults[setting], name);
    }
  });

  it('says the unit that the name says, and a meaning', () => {
    for (const { name, unit, meaning } of rows) {
      if (name.endsWith('_PER_SECOND')) assert.match(unit, /\/s$/, name);
      else if (name.endsWith('_SECONDS')) assert.equal(unit, 's', name);
      else if (name.endsWith('_DAYS')) assert.equal(unit, 'days', name);
      assert.match(meaning, /^[A-Z`].*\.$/, name);
    }
  });

  it('names for local servers each variable that they read', () => {
    const named = rowsOf(section(page, 'Local servers')).map(([name]) => codeOf(name));
    assert.deepEqual(named.sort(), [...portsAndPrograms(), 'DATA_DIR'].sort());
  });

  it('names for the Compose stack each variable that it alone reads', () => {
    const named = rowsOf(section(page, 'Compose stack')).map(([name]) => codeOf(name));
    const asked = [...readPage('docker-compose.yml').matchAll(/\$\{([A-Z_]+)/g)].map(([, name = '']) => name);
    const alone = asked.filter((name) => !(name in environmentSchema.shape));
    assert.deepEqual(named.sort(), [...new Set(alone)].sort());
  });
});

/** Returns the variables that local servers read beside the service's settings. */
function portsAndPrograms(): string[] {
  const code = readdirSync(join(root, 'local'))
    .map((name) => readFileSync(join(root, 'local', name), 'utf8'))
    .join('\n');
  const read = [...code.matchAll(/(?:preferably|named)\('([A-Z0-9_]+)'/g)].map(([, name = '']) => name);
  return [...new Set(read)].filter((name) => !(name in environmentSchema.shape));
}
