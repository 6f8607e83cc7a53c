import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '../..');

describe('The index of the pages', () => {
  for (const path of ['docs/README.md', 'llms.txt']) {
    it(`${path} says of each page what its first lines say (node .ci/pages.mjs writes it)`, async () => {
      const { pages } = (await import(join(root, '.ci/pages.mjs'))) as {
        pages: () => Record<string, string>;
      };
      assert.equal(readFileSync(join(root, path), 'utf8'), pages()[path]);
    });
  }

  it('llms.txt names every page of the guides and the reference', () => {
    const index = readFileSync(join(root, 'docs/README.md'), 'utf8');
    const listed = readFileSync(join(root, 'llms.txt'), 'utf8');
    for (const [, path = ''] of index.matchAll(/\]\(([^)]+\.md)\)/g)) {
      assert.ok(listed.includes(join('docs', path)), path);
    }
  });
});
