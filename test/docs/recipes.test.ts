/** CONTRIBUTING.md's recipes, followed by what was added before: a file that knows each setting must be told of the next one. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { calls } from '../../src/api/calls.js';
import { environmentSchema } from '../../src/config.js';
import { errors } from '../../src/http/errors.js';
import { createMetrics } from '../../src/metrics.js';
import { nameOf } from '../../src/operator/operation.js';
import { operations } from '../../src/operator/operations.js';
import { waitReasons } from '../../src/redis/owed/waitReasons.js';

const root = join(import.meta.dirname, '../..');
const folders = ['src', 'workflows', 'activities', 'local', 'test', 'docs', 'deploy', 'clients', 'examples'];
const isRead = (name: string) =>
  /\.(ts|mjs|lua|json|ya?ml|md|txt|cfg|example)$/.test(name) &&
  !/node_modules|^test\/(histories|deploy\/life)\/|^CHANGELOG|recipes\.test\.ts$/.test(name);
const texts = new Map(
  folders
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
        join(folder, name),
      ),
    )
    .concat(readdirSync(root))
    .filter(isRead)
    .map((name) => [name, readFileSync(join(root, name), 'utf8')]),
);
const textOf = (name: string): string => texts.get(name) ?? '';

const recipes = new Map(
  [...textOf('CONTRIBUTING.md').matchAll(/^\*\*([^*]+)\.\*\* (.*?)\n\n/gms)].map(
    ([, title = '', text = '']) => [
      title,
      new Set(text.match(/(?<![\w./-])[\w.][\w./-]*\.(ts|mjs|lua|json|yml|md|txt|example)\b/g)),
    ],
  ),
);

const pages = [...texts.keys()].flatMap((name) => /^docs\/(?!README)(.*\.md)$/.exec(name)?.[1] ?? []);
const metrics = createMetrics().registry.getMetricsAsArray();
const alerts = textOf('deploy/prometheus/alerts.yml').match(/(?<=alert: )\w+/g) ?? [];
/** What there is of each kind, by the name that every place has for it. */
const kinds: [recipe: string, kind: string, names: readonly string[]][] = [
  ['Add a setting', 'setting', Object.keys(environmentSchema.shape)],
  ['Add a call', 'id of a call', calls.map(({ operationId }) => operationId)],
  ['Add a call', 'path', calls.map(({ path }) => path)],
  ['Add a call', 'code', Object.keys(errors)],
  ['Add an operation of operators', 'command', operations.map(nameOf)],
  ['Add a reason to wait', 'reason', waitReasons],
  ['Add a metric', 'metric', metrics.map(({ name }) => name).filter((name) => /^asset_/.test(name))],
  ['Add a metric', 'alert', alerts],
  ['Add a page', 'page', pages],
];

describe('the recipes of CONTRIBUTING.md', () => {
  for (const [recipe, kind, names] of kinds)
    it(`“${recipe}” names each file that knows every ${kind}`, () => {
      const words = names.map(
        (name) => new RegExp(`(?<![\\w.-])${name.replaceAll(/[.{}]/g, '\\$&')}(?![\\w-])`),
      );
      const knowing = [...texts].filter(([, text]) => words.every((word) => word.test(text)));
      assert.ok(names.length > 8 && knowing.length > 0);
      const unnamed = knowing.map(([name]) => name).filter((name) => !recipes.get(recipe)?.has(name));
      assert.deepEqual(unnamed, []);
    });

  it('name files that are there', () => {
    const named = [...recipes.values()].flatMap((files) => [...files]);
    assert.ok(named.length > 30);
    assert.deepEqual(
      named.filter((name) => !name.includes('NAME') && !existsSync(join(root, name))),
      [],
    );
  });
});
