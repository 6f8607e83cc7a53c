import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { parse } from 'yaml';

const root = join(import.meta.dirname, '../..');
const pages = markdownFiles();
/** They name files as they were on their day. */
const records = ['CHANGELOG.md', 'docs/benchmarks/decisions.md'];

describe('Every page', () => {
  for (const page of pages) {
    it(`${page} links only files and headings that exist`, () => {
      const broken = linksOf(page).filter((target) => !resolves(page, target));
      assert.deepEqual(broken, []);
    });

    if (records.includes(page)) continue;
    it(`${page} names only files of the tree that exist`, () => {
      const missing = filesNamedIn(page).filter(
        (path) => !exists(path) && !exists(join(dirname(page), path)),
      );
      assert.deepEqual(missing, []);
    });
  }

  it('of docs is reached from docs/README.md', () => {
    const seen = new Set<string>();
    const open = ['docs/README.md'];
    for (let page = open.pop(); page !== undefined; page = open.pop()) {
      if (seen.has(page)) continue;
      seen.add(page);
      for (const target of linksOf(page)) {
        const linked = pathOf(page, target);
        if (pages.includes(linked)) open.push(linked);
      }
    }
    const unreached = pages.filter((page) => page.startsWith('docs/') && !seen.has(page));
    assert.deepEqual(unreached, []);
  });
});

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

/** What a cell about another product may say without a source: that nothing was found, or that the row's others say it. */
const unsourced = /^(none found\b|every message$|the same$|all five$)/;

it('The comparison has a source line at a commit for each thing that it says of others', () => {
  const text = readFileSync(join(root, 'docs/comparison.md'), 'utf8');
  const sources = new Map([...text.matchAll(/^\[([a-z-]+)\]: (\S+)$/gm)].map(([, name, url]) => [name, url]));
  for (const [name, url] of sources) assert.match(url ?? '', /\/blob\/[0-9a-f]{12}\/.*#L\d+$/, name);
  const rows = [...text.matchAll(/^\| (.*) \|$/gm)].map(([, row = '']) => row.split(' | '));
  const cells = rows.flatMap((row) => (row.length === 3 ? row.slice(1, 2) : row.slice(2)));
  const without = cells.filter(
    (cell) => !/^(---|who$|Svix$|Convoy$|Outpost$|hook0$|WebhookX$)/.test(cell) && !unsourced.test(cell),
  );
  for (const cell of without) {
    const named = [...cell.matchAll(/\]\[([a-z-]+)\]/g)].map(([, name]) => name);
    assert.ok(named.length > 0 && named.every((name) => sources.has(name)), `no source: ${cell}`);
  }
  assert.ok(cells.length > 60, 'the tables were found');
});

it('Each alert leads to a section of the runbook, which names it', () => {
  const { groups } = parse(readFileSync(join(root, 'deploy/prometheus/alerts.yml'), 'utf8')) as {
    groups: { rules: { alert?: string; annotations?: { runbook_url: string } }[] }[];
  };
  const runbook = 'docs/guides/runbook.md';
  const sections = new Map(
    readFileSync(join(root, runbook), 'utf8')
      .split(/^## /m)
      .map((text) => [anchorOf(text.split('\n')[0]), text]),
  );
  for (const { alert, annotations } of groups.flatMap(({ rules }) => rules)) {
    if (annotations === undefined) continue;
    const [page, anchor = ''] = annotations.runbook_url.replace(/{{.*"(.*)" }}/, '$1').split('#');
    assert.equal(page, 'http://127.0.0.1:9464/runbook', alert);
    assert.ok(sections.get(anchor)?.includes(`\`${alert}\``), `${anchor} does not name ${alert}`);
  }
});

/** Paths from the root of the repository, without what is installed, built or measured. */
function markdownFiles(folder = ''): string[] {
  const skipped = new Set(['node_modules', 'dist', 'results']);
  return readdirSync(join(root, folder), { withFileTypes: true })
    .filter(({ name }) => !skipped.has(name) && !name.startsWith('.'))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return markdownFiles(path);
      return entry.name.endsWith('.md') ? [path] : [];
    });
}

/** The relative links of a page, code left out; of `[text][name]` the name where nothing defines it. */
function linksOf(page: string): string[] {
  const text = prose(page);
  const defined = new Set([...text.matchAll(/^\[([^\]]+)\]: /gm)].map(([, name]) => name));
  const named = [...text.matchAll(/\]\[([^\]]+)\]/g)].map(([, name = '']) => name);
  const undefinedNames = named.filter((name) => !defined.has(name));
  return [...inlineLinksOf(text), ...undefinedNames];
}

function inlineLinksOf(text: string): string[] {
  const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
  return targets.filter((target) => !/^[a-z]+:/.test(target));
}

function prose(page: string): string {
  const text = readFileSync(join(root, page), 'utf8');
  return text
    .replace(/^ *```[\s\S]*?^ *```$/gm, '')
    .replace(/`[^`\n]*`/g, (code) => code.replace(/[[\]()]/g, ''));
}

/** `src/api/app.ts`, `test/api/recorded/`: written as code, from the root of the repository. */
function filesNamedIn(page: string): string[] {
  const text = readFileSync(join(root, page), 'utf8');
  const top = 'src|workflows|activities|local|clients|examples|test|bench|deploy|docs';
  const named = text.matchAll(
    new RegExp(`\\b(?<![/.\\w])(?:${top})/[\\w/.-]*\\w\\.(?:ts|mjs|md|yml|yaml|json|lua|sh)\\b`, 'g'),
  );
  return [...named].map(([path]) => path).filter((path) => !path.includes('NAME'));
}

function exists(path: string): boolean {
  return statSync(join(root, path), { throwIfNoEntry: false }) !== undefined;
}

function pathOf(page: string, target: string): string {
  const [path = ''] = target.split('#');
  return path === '' ? page : relative(root, normalize(join(root, dirname(page), path)));
}

function resolves(page: string, target: string): boolean {
  const path = pathOf(page, target);
  if (!exists(path)) return false;
  const [, anchor] = target.split('#');
  return anchor === undefined || anchorsOf(path).has(anchor);
}

/** As GitHub makes it of a heading. */
function anchorOf(heading = ''): string {
  const text = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
  return text.replace(/[^\p{L}\p{N} _-]/gu, '').replace(/ /g, '-');
}

function anchorsOf(page: string): Set<string> {
  const found = new Map<string, number>();
  for (const [, heading = ''] of prose(page).matchAll(/^#{1,6} +(.+)$/gm)) {
    const anchor = anchorOf(heading);
    const times = found.get(anchor) ?? 0;
    found.set(anchor, times + 1);
    if (times > 0) found.set(`${anchor}-${times}`, 1);
  }
  return new Set(found.keys());
}
