import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

describe('npm run sbom', () => {
  it('lists every package of the lock file that the service runs with, and none of development', () => {
    const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { version: string; name?: string; dev?: boolean }>;
    };
    const wanted = Object.entries(packages)
      .filter(([path, { dev }]) => path !== '' && !dev)
      .map(([path, { name, version }]) => `${name ?? path.replace(/.*node_modules\//, '')}@${version}`);
    const sbom = JSON.parse(
      execFileSync(process.execPath, ['.ci/sbom.mjs'], { cwd: root, encoding: 'utf8', maxBuffer: 64 << 20 }),
    ) as { components: { name: string; version: string }[] };
    const listed = sbom.components.map(({ name, version }) => `${name}@${version}`);
    assert.deepEqual([...new Set(listed)].sort(), [...new Set(wanted)].sort());
  });
});
