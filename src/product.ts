import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The name and the version of the service: those of package.json, the one place that has the version. */
export const product: { name: string; version: string } = readManifest();

/** The package file is one folder up from the source and two from the build. */
function readManifest(): { name: string; version: string } {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = dirname(folder);
    if (parent === folder) throw new Error(`package.json not found above ${import.meta.dirname}`);
    folder = parent;
  }
  const { name, version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Record<
    'name' | 'version',
    string
  >;
  return { name, version };
}
