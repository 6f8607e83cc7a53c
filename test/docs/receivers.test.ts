import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { allExamples } from '../examples/examples.js';

const guides = join(import.meta.dirname, '../../docs/guides');
const page = readFileSync(join(guides, 'receivers.md'), 'utf8');
const links = [...page.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, target = '']) => target);

describe('docs/guides/receivers.md', () => {
  it('links each example, and each is tried by a test', () => {
    const folders = readdirSync(join(guides, '../../examples')).sort();
    assert.deepEqual(allExamples.map(({ name }) => name).sort(), folders);
    for (const { name, source } of allExamples)
      assert.ok(links.includes(`../../examples/${name}/${source}`), name);
  });
});
