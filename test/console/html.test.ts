import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { html } from '../../src/api/console/html.js';

describe('console: HTML', () => {
  it('escapes every value in a template, and quotes every attribute', () => {
    const evil = `"><script>alert('1')</script>&`;
    assert.equal(
      html`<a title="${evil}">${[evil, html`<b>${1}</b>`, null, false]}</a>`.text,
      '<a title="&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;">' +
        '&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;<b>1</b></a>',
    );
    const folder = join(import.meta.dirname, '../../src/api/console');
    for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.ts'),
    )) {
      const source = readFileSync(join(folder, file), 'utf8');
      for (const template of source.matchAll(/html`[\s\S]*?`/g))
        assert.doesNotMatch(template[0], /\s[\w-]+=\$\{/, file);
      assert.doesNotMatch(source, /<style|\sstyle="|<script>|\son[a-z]+="/, file);
    }
  });
});
