import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const tried = [...readFileSync('.ci/nodes.mjs', 'utf8').matchAll(/'(\d+\.\d+\.\d+)'/g)].map(
  ([, v = '']) => v,
);
const { engines } = JSON.parse(readFileSync('package.json', 'utf8')) as { engines: { node: string } };
const numbers = (version: string): number[] => version.split('.').map(Number);

describe('the versions of Node', () => {
  it('in package.json are those that npm run test:nodes runs', () => {
    const ranges = engines.node.split(' || ').map((range) => numbers(range.replace(/^\^/, '')));
    assert.deepEqual(
      ranges.map(([major]) => major),
      tried.map((version) => numbers(version)[0]),
    );
    for (const [i, version] of tried.entries()) {
      const [, minor = 0] = numbers(version);
      assert.ok(minor >= (ranges[i]?.[1] ?? 0), `${version} is not within ${engines.node}`);
    }
  });

  it('include that of the Dockerfile, and are listed in docs/dependencies.md', () => {
    const dockerfile = readFileSync('Dockerfile', 'utf8');
    for (const [, version = ''] of dockerfile.matchAll(/^FROM node:(\d+\.\d+\.\d+)/gm)) {
      assert.ok(tried.includes(version), version);
    }
    const docs = readFileSync('docs/dependencies.md', 'utf8');
    for (const version of tried) assert.ok(docs.includes(`| ${version} |`), version);
  });
});
