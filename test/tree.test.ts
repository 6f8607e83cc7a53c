/** The rules of the tree (docs/architecture.md, "The tree"): who may import whom, and how crowded a folder may be. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { importsOf } from './imports.mjs';

const project = join(import.meta.dirname, '..');

/**
 * From the roof down. A file imports from its own room and from rooms on floors below, types too: a room is a folder,
 * or a file that stands by itself.
 */
const floors = [
  ['bench'],
  ['local'],
  ['src/main.ts'],
  ['src/service.ts'],
  ['src/worker.ts'],
  ['src/desk'],
  ['src/operator', 'src/api'],
  ['src/web'],
  ['src/acts'],
  ['src/compose.ts', 'src/http'],
  ['workflows'],
  ['activities'],
  ['src/upkeep'],
  ['src/delivery'],
  ['src/storeMetrics.ts'],
  ['src/metrics.ts'],
  ['src/notices'],
  ['src/temporal'],
  ['src/redis', 'src/outgoing'],
  ['src/tracing.ts'],
  ['src/config.ts'],
  ['src/openFiles.ts', 'src/addresses.ts'],
  [
    'src/ids.ts',
    'src/log.ts',
    'src/product.ts',
    'src/promises.ts',
    'src/times.ts',
    // A separate package: it imports nothing.
    'clients/node/src',
  ],
  ['src/constants.ts'],
];
const maxFiles = 23;
const maxLines = 300;

/** What a process or a worker begins with. */
const entries = [
  /^(src|src\/operator|bench)\/main\.ts$/,
  /^bench\/(flooder|floor|receiver)\.ts$/,
  /^(local\/(demo|start)|workflows\/index)\.ts$/,
  /^test\/.*(\.test|\/children\/\w+|\/record)\.ts$/,
];

const filesIn = (folder: string): string[] =>
  readdirSync(join(project, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name));
const sources = ['bench', 'src', 'local', 'workflows', 'activities', 'clients/node/src'].flatMap(filesIn);
const textOf = (file: string): string => readFileSync(join(project, file), 'utf8');
const imports = new Map(sources.map((file) => [file, importsOf(file)]));

const rooms = floors.flat();
const roomOf = (file: string): string | undefined =>
  rooms.find((room) => file === room || file.startsWith(`${room}/`));
const floorOf = (file: string): number => floors.findIndex((floor) => floor.includes(roomOf(file) ?? ''));

describe('the tree', () => {
  it('has a floor for every source file', () => {
    const without = sources.filter((file) => roomOf(file) === undefined);
    assert.deepEqual(without, []);
  });

  it('has no import that leads up, or to another folder of the same level', () => {
    const wrong = sources.flatMap((file) =>
      (imports.get(file) ?? [])
        .filter((to) => roomOf(to) !== roomOf(file) && floorOf(to) <= floorOf(file))
        .map((to) => `${file} -> ${to}`),
    );
    assert.deepEqual(wrong, []);
  });

  it('has no file that nothing imports, but where a process begins', () => {
    const files = [...sources, ...filesIn('test')];
    const imported = new Set(files.flatMap(importsOf));
    const isTied = (file: string) => imported.has(file) || entries.some((entry) => entry.test(file));
    const untied = files.filter((file) => !isTied(file));
    assert.deepEqual(untied, []);
  });

  it('has each test file that local/launch.mjs names: Mocha leaves out, with a warning, what it does not find', () => {
    const named = [...textOf('local/launch.mjs').matchAll(/'(test\/[^'*$]+)'/g)].map(([, file = '']) => file);
    assert.deepEqual(
      named.filter((file) => !existsSync(join(project, file))),
      [],
    );
  });

  it('has no cycle of imports', () => {
    const done = new Set<string>();
    const visit = (file: string, way: string[]): void => {
      const before = way.indexOf(file);
      assert.equal(before, -1, `circle: ${[...way.slice(before), file].join(' -> ')}`);
      if (done.has(file)) return;
      for (const to of imports.get(file) ?? []) visit(to, [...way, file]);
      done.add(file);
    };
    for (const file of sources) visit(file, []);
  });

  it('has one reader of the errors of Redis', () => {
    const reads =
      /\b(NOPERM|WRONG(TYPE|PASS)|READONLY|NOSCRIPT|CLUSTERDOWN)\b|\(\w+\.message\b|message\.(test|match)\(/;
    const ofServers = sources.filter((file) =>
      /^(src\/(redis|delivery|upkeep|operator|notices)|activities)/.test(file),
    );
    const readers = ofServers.filter((file) => reads.test(textOf(file)));
    assert.deepEqual(readers, ['src/redis/connection/unavailable.ts']);
  });

  it('has no crowded folder', () => {
    const counts = new Map<string, number>();
    for (const file of sources) counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1);
    const crowded = [...counts].filter(([, count]) => count > maxFiles);
    assert.deepEqual(crowded, []);
  });

  it('has no long source file', () => {
    const long = sources.filter((file) => textOf(file).split('\n').length - 1 > maxLines);
    assert.deepEqual(long, []);
  });
});
