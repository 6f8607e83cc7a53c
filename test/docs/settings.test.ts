/** The settings in docs/reference and .env.example are those of the code. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { environmentSchema, readConfig } from '../../src/config.js';

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const settings = Object.keys(environmentSchema.shape).sort();
const variablesOfCompose = [...read('docker-compose.yml').matchAll(/\$\{([A-Z_]+)/g)].map(
  ([, name = '']) => name,
);

describe('docs/reference/settings.md', () => {
  const page = read('docs/reference/settings.md');
  const rows = rowsOf(section(page, 'Service')).map(([name, value]) => {
    return { name: codeOf(name) ?? '', value: codeOf(value) };
  });

  it('has one row for each setting of the service, and no other', () => {
    assert.deepEqual(rows.map(({ name }) => name).sort(), settings);
  });

  it('shows the default of each', () => {
    const defaults = readConfig({});
    for (const { name, value } of rows) {
      const setting = name as keyof typeof defaults;
      if (value === undefined) assert.deepEqual([defaults[setting] ?? []].flat().join(''), '', name);
      else assert.deepEqual(readConfig({ [name]: value })[setting], defaults[setting], name);
    }
  });

  it('names for local servers each variable that they read', () => {
    const code = readdirSync(join(root, 'local'))
      .map((name) => read(`local/${name}`))
      .join('\n');
    const asked = [...code.matchAll(/(?:preferably|named)\('([A-Z0-9_]+)'/g)].map(([, name = '']) => name);
    const alone = [...new Set(asked)].filter((name) => !settings.includes(name));
    const named = rowsOf(section(page, 'Local servers')).map(([name]) => codeOf(name));
    assert.deepEqual(named.sort(), [...alone, 'DATA_DIR'].sort());
  });

  it('names for the Compose stack each variable that it alone reads', () => {
    const alone = variablesOfCompose.filter((name) => !settings.includes(name));
    const named = rowsOf(section(page, 'Compose stack')).map(([name]) => codeOf(name));
    assert.deepEqual(named.sort(), [...new Set(alone)].sort());
  });
});

describe('.env.example', () => {
  const lines = [...read('.env.example').matchAll(/^(#?)([A-Z][A-Z_]*)=(.*)$/gm)].map(
    ([, off, name = '', value = '']) => ({ isSet: off === '', name, value }),
  );

  it('names every variable of docker-compose.yml, and every setting once with its default', () => {
    const names = lines.map(({ name }) => name);
    for (const name of variablesOfCompose) assert.ok(names.includes(name), name);
    assert.deepEqual(names.filter((name) => settings.includes(name)).sort(), settings);
    const defaults = readConfig({});
    for (const { name, value } of lines) {
      const setting = name as keyof typeof defaults;
      if (name in defaults) assert.deepEqual(readConfig({ [name]: value })[setting], defaults[setting], name);
    }
  });

  it('holds no secret and sets only what must be filled in', () => {
    const set = lines.filter(({ isSet }) => isSet).map(({ name, value }) => `${name}=${value}`);
    assert.deepEqual(set, ['POSTGRES_PASSWORD=', 'REDIS_PASSWORD=', 'SECRETS_KEY=']);
  });
});

/** The text of a page below one of its headings, up to the next heading of any depth. */
function section(page: string, heading: string): string {
  const [, below] = page.split(new RegExp(`^#+ ${heading}\n`, 'm'));
  if (below === undefined) throw new Error(`no heading "${heading}"`);
  return below.split(/^#+ /m)[0] ?? '';
}

/** The cells of each row of the tables in a text, without heads and rules. `\|` is a bar within a cell. */
function rowsOf(text: string): string[][] {
  const lines = text.split('\n').filter((line) => line.startsWith('|'));
  const isRule = (line: string | undefined) => line !== undefined && /^\|[ :|-]+\|$/.test(line);
  return lines
    .filter((line, at) => !isRule(line) && !isRule(lines[at + 1]))
    .map((line) =>
      line
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim().replaceAll('\\|', '|')),
    );
}

/** Returns the text between the backticks of a cell that has nothing else; undefined for any other cell. */
function codeOf(cell: string | undefined): string | undefined {
  return cell?.match(/^`([^`]+)`$/)?.[1];
}
