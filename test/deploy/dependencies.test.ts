import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

type Versions = Record<string, string>;
type Row = [name: string, version: string, licence: string, reason: string];

const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as {
  dependencies: Versions;
  devDependencies: Versions;
};
const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
  packages: Record<string, { version?: string; license?: string }>;
};
const sections = readFileSync('docs/dependencies.md', 'utf8').split(/^## /m);

describe('docs/dependencies.md', () => {
  for (const [heading, versions] of [
    ['Runtime packages', manifest.dependencies],
    ['Development packages', manifest.devDependencies],
  ] as const) {
    const rows = rowsOf(heading);

    it(`has, under "${heading}", every package of package.json in its version, with a reason`, () => {
      assert.deepEqual(Object.fromEntries(rows.map(([name, version]) => [name, version])), versions);
      for (const [name, , , reason] of rows) assert.ok(reason.length > 5, name);
    });

    it(`names, under "${heading}", the licence that is in the lockfile`, () => {
      for (const [name, version, licence] of rows) {
        const locked = lock.packages[`node_modules/${name}`];
        assert.deepEqual([locked?.version, locked?.license], [version, licence], name);
      }
    });
  }
});

function rowsOf(heading: string): Row[] {
  const section = sections.find((text) => text.startsWith(`${heading}\n`)) ?? '';
  return section
    .split('\n')
    .filter((line) => /^\| [@a-z]/.test(line) && !line.startsWith('| package '))
    .map((line) => {
      const [, name = '', version = '', , licence = '', reason = ''] = line
        .split('|')
        .map((cell) => cell.trim());
      return [name, version, licence, reason];
    });
}
