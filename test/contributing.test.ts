import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const read = (file: string): string => readFileSync(join(import.meta.dirname, '..', file), 'utf8');

describe('CONTRIBUTING.md', () => {
  it('names only scripts that package.json has', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = [...read('CONTRIBUTING.md').matchAll(/npm (?:run (?:-s )?)?([a-z:]+)/g)]
      .map(([, script]) => script as string)
      .filter((script) => !['ci', 'install'].includes(script));
    assert.ok(named.length > 8);
    assert.deepEqual(
      [...new Set(named)].filter((script) => !(script in scripts)),
      [],
    );
  });
});
