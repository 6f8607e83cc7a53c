import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, normalize } from 'node:path';

const root = join(import.meta.dirname, '../..');
const read = (page: string) => readFileSync(join(root, page), 'utf8');

/** The pages of measurements. Every other page has a measured figure only from one of them, and links it. */
const measuring = [
  'docs/benchmarks.md',
  'docs/benchmarks/decisions.md',
  'docs/capacity.md',
  'docs/contest.md',
  'docs/reliability.md',
  'docs/bad-input.md',
];
const others = [
  'README.md',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .map((file) => join('docs', file))
    .filter((file) => file.endsWith('.md') && !measuring.includes(file)),
];

/** Rates of what is delivered, CPU time, and what is set in bold. */
const figure =
  /(\d[\d,.]*)(?= ?(?:ms|s)\*\*| ?ms of CPU| ?(?:events|notifications|deliveries)(?:\/s| a second))/g;

describe('A measured figure', () => {
  for (const page of measuring) {
    it(`stands in ${page} with a date and a command or a test`, () => {
      assert.match(read(page), /20\d\d-\d\d-\d\d/);
      assert.match(read(page), /npm run|npm test|_FORM=|in turn/);
    });
  }

  for (const page of others) {
    it(`of ${page} is one of a page of measurements that its paragraph links`, () => {
      const prose = read(page).replaceAll(/^```.*?^```/gms, '');
      for (const paragraph of prose.split(/\n\n|\n(?=[|-])/)) {
        const linked = [...paragraph.matchAll(/\]\(([^)#]+\.md)[^)]*\)/g)]
          .map(([, target = '']) => normalize(join(page, '..', target)))
          .filter((target) => measuring.includes(target));
        for (const [, number = ''] of paragraph.matchAll(figure)) {
          const isSetByThem = /bounded to|sent \d|Tried:/.test(paragraph);
          assert.ok(
            isSetByThem || linked.some((target) => read(target).includes(number)),
            `${number}: ${paragraph}`,
          );
        }
      }
    });
  }
});
