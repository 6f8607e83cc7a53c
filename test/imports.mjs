import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const projectDir = join(import.meta.dirname, '..');
const statements = /(?:^|\n)(?:import|export)(?: [^'";]*? from)? ['"](\.[^'"]+)['"]|\bimport\('(\.[^']+)'\)/g;

/** See imports.d.mts. */
export function importsOf(file) {
  const text = readFileSync(join(projectDir, file), 'utf8');
  return [...text.matchAll(statements)].map(([, from, called]) => {
    const path = join(projectDir, dirname(file), from ?? called);
    const source = existsSync(path) ? path : path.replace(/js$/, 'ts');
    if (!existsSync(source)) throw new Error(`${file} imports ${path}, which is not there`);
    return relative(projectDir, source);
  });
}
