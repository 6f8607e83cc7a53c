import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';

const lines = readFileSync('Dockerfile', 'utf8')
  .replace(/\\\n\s*/g, '')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));
const stages = lines.join('\n').split(/^(?=FROM )/m);
const last = stages.at(-1) ?? '';

describe('Dockerfile', () => {
  it('has separate stages to build and to run', () => {
    assert.equal(stages.length, 2);
    assert.match(stages[0] ?? '', /npm ci --ignore-scripts[\s\S]*npm run build && npm prune --omit=dev/);
    assert.doesNotMatch(last, /npm/);
  });

  it('pins its base, which has glibc', () => {
    for (const stage of stages)
      assert.match(stage, /^FROM node:24\.\d+\.\d+-bookworm-slim(@sha256:[0-9a-f]{64})?( |\n)/);
  });

  it('runs as a user without rights over its own code', () => {
    assert.match(last, /^USER node$/m);
    assert.doesNotMatch(last, /--chown|--chmod/);
    assert.ok(last.lastIndexOf('\nUSER ') > last.lastIndexOf('\nCOPY '));
  });

  it('copies only what exists and .dockerignore lets in, and .dockerignore lets in nothing else', () => {
    const copied = lines
      .filter((line) => line.startsWith('COPY ') && !line.includes('--from='))
      .flatMap((line) => line.split(/\s+/).slice(1, -1))
      .map((path) => path.replace(/^\.\//, ''));
    const [first, ...letIn] = readFileSync('.dockerignore', 'utf8').trim().split('\n');
    assert.equal(first, '*');
    assert.deepEqual(letIn.map((line) => line.replace(/^!/, '')).sort(), copied.sort());
    for (const path of copied) assert.ok(existsSync(path), path);
  });
});
