import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { html } from '../../src/api/console/html.js';

describe('console: HTML', () => {
  it('escapes every value in a template, and quotes every attribute', () => {
    const evil = `"><script>alert('1')</script>&`;
    assert.equal(
      html`<a title="${evil}">${[evil, html`<b>${1}</b>`, null, false]}</a>`.text,
      '<a title="&#34;&#62;&#60;script&#62;alert(&#39;1&#39;)&#60;/script&#62;&#38;">' +
        '&#34;&#62;&#60;script&#62;alert(&#39;1&#39;)&#60;/script&#62;&#38;<b>1</b></a>',
    );
    const folder = join(import.meta.dirname, '../../src/api/console');
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' });
    for (const file of files.filter((name) => name.endsWith('.ts'))) {
      const source = readFileSync(join(folder, file), 'utf8');
      for (const template of source.matchAll(/html`[\s\S]*?`/g))
        assert.doesNotMatch(template[0], /\s[\w-]+=\$\{/, file);
      assert.doesNotMatch(source, /<style|\sstyle="|<script>|\son[a-z]+="/, file);
    }
  });
});
