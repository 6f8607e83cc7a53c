import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const projectDir = join(import.meta.dirname, '..');
const loads = /(?:^|\n)(?:import|export)(?! type\b)(?: [^'";]*? from)? ['"]([^'"]+)['"]/g;
const statements = /(?:^|\n)(?:import|export)(?: [^;]*? from)? ['"](\.[^'"]+)['"]|\bimport\('(\.[^']+)'\)/g;

/** See imports.d.mts. */
export function importsOf(file) {
  const text = readFileSync(join(projectDir, file), 'utf8');
  return [...text.matchAll(statements)].flatMap(([, from, called]) => {
    const path = join(projectDir, dirname(file), from ?? called);
    const source = existsSync(path) ? path : path.replace(/js$/, 'ts');
    // A test may hold a program of its own as text.
    if (!existsSync(source) && file.startsWith('test/')) return [];
    if (!existsSync(source)) throw new Error(`${file} imports ${path}, which is not there`);
    return [relative(projectDir, source)];
  });
}

/** See imports.d.mts. */
export function packagesLoadedWith(file, seen = new Set()) {
  if (seen.has(file)) return [];
  seen.add(file);
  const wanted = [...readFileSync(join(projectDir, file), 'utf8').matchAll(loads)].map(([, from]) => from);
  const found = wanted.flatMap((from) => {
    if (from.startsWith('node:')) return [];
    if (!from.startsWith('.')) return [from];
    return packagesLoadedWith(join(dirname(file), from).replace(/js$/, 'ts'), seen);
  });
  return [...new Set(found)].sort();
}
