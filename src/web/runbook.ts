/** The runbook as a page of the admin port: the alerts' `runbook_url` leads to its sections, also while the stores are away. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { packedFile } from './files.js';
import { html } from './html.js';

const manifest = createRequire(import.meta.url).resolve('#manifest');

/** Answers the text as it is written, with an anchor for each heading as GitHub has them. */
export const runbookPage = packedFile('html', async () => {
  const text = await readFile(join(dirname(manifest), 'docs/guides/runbook.md'), 'utf8');
  const [head = '', ...sections] = text.split(/^## /m);
  const shown = sections.map((section) => {
    const [title = ''] = section.split('\n', 1);
    const id = title.toLowerCase().replaceAll(' ', '-');
    return html`<h2 id="${id}">${title}</h2><pre>${section.slice(title.length).trim()}</pre>`;
  });
  const page = html`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Runbook</title></head>
<body><pre>${head}</pre>${shown}</body></html>`;
  return Buffer.from(page.text);
});
