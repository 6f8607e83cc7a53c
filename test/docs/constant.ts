import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './tables.js';

/** A number of the source, by its name: `const name = 16 * 1024;`. @throws where there is none, or another of that name */
export function constant(name: string): number {
  const definition = new RegExp(`const ${name} = ([\\d_ *]+);`);
  const found = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(join(root, 'src', file), 'utf8').match(definition)?.[1])
    .filter((text) => text !== undefined);
  assert.equal(found.length, 1, `constants named ${name} in src`);
  const factors = (found[0] ?? '').replaceAll('_', '').split('*').map(Number);
  return factors.reduce((product, factor) => product * factor, 1);
}
