/** The settings, commands and details of failures that the pages and .env.example name are those of the code. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { retriesInWords } from '../../src/api/reference/webhook.js';
import { environmentSchema, readConfig } from '../../src/config.js';
import { createProgram } from '../../src/operator/program.js';
import { allDetails, explainFailure } from '../../src/outgoing/details.js';
import { clientKeys } from '../../src/redis/connection/keys.js';

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

describe('docs/contract.md', () => {
  it('has the schedule of retries in the words of /openapi.json, which are made from its default', () => {
    assert.ok(
      read('docs/contract.md').includes(`Further ones follow after ${retriesInWords}, each`),
      retriesInWords,
    );
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

it('docs/guides/runbook.md names each key of a client that is no hash, and as what it is', () => {
  const [, list = '', zset = '', set = '', string = ''] =
    /A list is (.*); sorted sets are (.*); a set is (.*); strings begin with (.*)\. All others are hashes/s.exec(
      section(read('docs/guides/runbook.md'), 'Broken keys'),
    ) ?? [];
  const said: Record<string, string> = { list, zset, set, string };
  const { shapes } = JSON.parse(read('test/redis/layout.json')) as { shapes: object };
  const kept = Object.keys(shapes).map((shape) => shape.split(/ \{(?:x|notices:platform)\}:/));
  for (const [type = '', name = ''] of kept.filter(([type, name]) => name !== undefined && type !== 'hash')) {
    const named = [...(said[type] ?? '').matchAll(/`(.+?)`/g)].map(([, one = '']) => one);
    assert.ok(
      named.some((one) => name.startsWith(one)),
      `${type} ${name}`,
    );
  }
  // A short life has not written these, nor hashes that pass.
  const unwritten = ['attempts-by', 'late', 'updates'];
  const all = Object.values(clientKeys('', 'T')).map((key) =>
    String(
      typeof key === 'function' ? key({ bucket: '', field: Buffer.alloc(0) } as never, 0 as never) : key,
    ),
  );
  const named = Object.values(said).join();
  for (const [, name = ''] of all.flatMap((key) => [...key.matchAll(/:([a-z-]+)/g)].slice(0, 1)))
    assert.ok(
      named.includes(`\`${name}`) ||
        unwritten.includes(name) ||
        kept.some(([type, one]) => type === 'hash' && one?.startsWith(name)),
      name,
    );
});

const program = createProgram(() => {
  throw new Error('runs nothing');
});

it('docs/reference/commands.md has each command and its options, and no other', () => {
  const rows = rowsOf(section(read('docs/reference/commands.md'), 'All commands')).map(
    ([command, , options = '']) => [
      // Without its arguments.
      codeOf(command)?.replace(/ [<[].*$/, ''),
      (options.match(/--[a-z-]+/g) ?? []).toSorted(),
    ],
  );
  assert.deepEqual(rows.toSorted(), commandsOf(program).toSorted());
});

it('every command of an operator that a page names is one of them, with its options', () => {
  const everywhere = ['--help', ...program.options.map(({ long }) => long ?? '')];
  const pages = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' });
  const named = pages
    .filter((name) => name.endsWith('.md'))
    .flatMap((name) => {
      const texts = read(join('docs', name)).matchAll(
        /(?:`operator|operator --|operator\/main\.js) (\w[^`\n#|]*)/g,
      );
      return [...texts].map(([, words = '']) => ({ name, words }));
    });
  assert.ok(named.length > 40);
  for (const { name, words } of named.filter((one) => !one.words.startsWith('COMMAND'))) {
    const found = commandsOf(program).find(([command]) => `${words} `.startsWith(`${command} `));
    assert.ok(found, `${name}: ${words}`);
    for (const option of words.match(/--[a-z][a-z-]+/g) ?? [])
      assert.ok([...everywhere, ...found[1]].includes(option), `${name}: ${words}: ${option}`);
  }
});

it('docs/guides/receivers.md gives each detail of a failed attempt the remedy that check and console give', () => {
  const page = read('docs/guides/receivers.md').split('| `detail` | remedy |')[1] ?? '';
  const rows = [...page.matchAll(/^\| (`.*) \| (.*) \|$/gm)].flatMap(([, details = '', remedy = '']) =>
    details.split(', ').map((detail) => [detail.replaceAll('`', ''), remedy.replace(/\[(.*)\]\(.*\)/, '$1')]),
  );
  const told = allDetails.map((detail) => [detail, explainFailure({ detail }).advice.replaceAll('’', "'")]);
  assert.deepEqual(Object.fromEntries(rows), Object.fromEntries(told));
  assert.equal(rows.length, told.length);
});

function commandsOf(parent: Command, before = ''): [string, string[]][] {
  return parent.commands.flatMap((command) => {
    const name = `${before}${command.name()}`;
    if (command.commands.length > 0) return commandsOf(command, `${name} `);
    return [[name, command.options.map(({ long }) => long ?? '').toSorted()]];
  });
}

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
