/**
 * `node .ci/pages.mjs`: writes docs/README.md and llms.txt anew. Headings and order are those of docs/README.md; title and line of a page
 * are its first heading and first sentence.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';

const root = join(import.meta.dirname, '..');
const read = (path) => readFileSync(join(root, path), 'utf8');

export function pages() {
  const entry = /^- \[[^\]]*\]\(([^)]+\.md)\).*\n(?: {2}.*\n)*/gm;
  const index = read('docs/README.md').replace(
    entry,
    (_line, path) => `- ${linked(join('docs', path), path)}\n`,
  );
  const sections = index
    .slice(index.indexOf('\n## ') + 1)
    .split('\n')
    .filter((line) => /^(## |- \[)/.test(line));
  const lines = sections.map((line) =>
    line.startsWith('#')
      ? `\n${line}\n`
      : line.replace(/\]\(([^)]+)\)/, (_, path) => `](${relative('.', join('docs', path))})`),
  );
  const { title, sentence } = frontOf('README.md');
  return { 'docs/README.md': index, 'llms.txt': `# ${title}\n\n> ${sentence}\n${lines.join('\n')}\n` };
}

function linked(path, shown) {
  const { title, sentence } = frontOf(path);
  return `[${title}](${shown}): ${sentence}`;
}

function frontOf(path) {
  const [heading = '', paragraph = ''] = read(path).split(/\n\n+/);
  const text = paragraph.replace(/\n/g, ' ').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1');
  const sentence = /^[A-Z`].*?\.(?= |$)/.exec(text)?.[0];
  if (!heading.startsWith('# ') || sentence === undefined)
    throw new Error(`${path} does not begin with a heading and a sentence`);
  return { title: heading.slice(2), sentence };
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const [path, text] of Object.entries(pages())) writeFileSync(join(root, path), text);
}
