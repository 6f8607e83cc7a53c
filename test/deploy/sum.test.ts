import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/running/projectDir.js';

interface Counts {
  passed: number;
  failed: number;
  skipped: string[];
}

describe('the sum of .ci/run', () => {
  let dir: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'sum-'));
  });
  after(() => rm(dir, { recursive: true }));

  const ran = (passed: number, skipped: string[] = [], failed = 0): Counts => ({ passed, failed, skipped });
  const missing = {
    tests: 'sent by odd-tool',
    without: ['odd-tool-that-is-not-here'],
    reason: 'there is no odd-tool',
  };
  const present = {
    tests: 'sent by node',
    without: [process.execPath, '--version'],
    reason: 'there is no node',
  };

  async function sum(...runs: (Counts | '')[]): Promise<{ status: number; lines: string[] }> {
    const skips = join(dir, 'skips.json');
    await writeFile(skips, JSON.stringify([missing, present]));
    const files = runs.map((_, i) => join(dir, `${i}.json`));
    await Promise.all(runs.map((run, i) => writeFile(files[i] ?? '', run === '' ? '' : JSON.stringify(run))));
    return await new Promise((resolve) => {
      execFile(process.execPath, ['.ci/sum.mjs', skips, ...files], { cwd: projectDir }, (err, stdout) => {
        resolve({ status: err === null ? 0 : Number(err.code), lines: stdout.trim().split('\n') });
      });
    });
  }

  it('the last line is the sum of all runs', async () => {
    assert.deepEqual(await sum(ran(3), ran(4)), { status: 0, lines: ['7 passed, 0 failed'] });
    assert.deepEqual(await sum(ran(3), ran(4, [], 2)), { status: 1, lines: ['7 passed, 2 failed'] });
  });

  it('a listed skipped test is no failure if its requirement is missing; it is printed with its reason', async () => {
    const { status, lines } = await sum(ran(3), ran(4, ['sent by odd-tool, whole']));
    assert.equal(status, 0);
    assert.deepEqual(lines, [
      'skipped: sent by odd-tool, whole',
      '         there is no odd-tool',
      '7 passed, 0 failed',
    ]);
  });

  it('an unlisted skipped test is a failure', async () => {
    const { status, lines } = await sum(ran(3, ['forgotten']), ran(4));
    assert.equal(status, 1);
    assert.match(
      lines.join('\n'),
      /^skipped: forgotten\n +a failure: .*does not name it\n7 passed, 1 failed$/,
    );
  });

  it('a test that is skipped although its requirement is met is a failure', async () => {
    const { status, lines } = await sum(ran(3, ['sent by node']));
    assert.deepEqual([status, lines.at(-1)], [1, '3 passed, 1 failed']);
  });

  it('a run without a count, or without a test, is a failure', async () => {
    for (const run of ['', ran(0)] as const) {
      const { status, lines } = await sum(ran(3), run);
      assert.deepEqual([status, lines.at(-1)], [1, '3 passed, 0 failed']);
      assert.match(lines.join('\n'), /runs without a test or a count: 1/);
    }
  });

  it('test/reporter.cjs writes its input: mocha’s counts and the skipped tests', async () => {
    const file = join(dir, 'some.spec.cjs');
    await writeFile(
      file,
      `describe('some', () => {
        it('passes', () => {});
        it('fails', () => { throw new Error('as it should'); });
        it('stands still', function () { this.skip(); });
        describe('all', () => { before(function () { this.skip(); }); it('of these', () => {}); });
        it('is still to be written');
      });`,
    );
    const counts = join(dir, 'counts.json');
    const mocha = join(projectDir, 'node_modules/mocha/bin/mocha.js');
    const args = [mocha, '--no-config', '--reporter', join(projectDir, 'test/reporter.cjs'), file];
    await new Promise((resolve) => {
      execFile(process.execPath, args, { env: { ...process.env, TEST_COUNTS: counts } }, resolve);
    });
    assert.deepEqual(JSON.parse(await readFile(counts, 'utf8')), {
      passed: 1,
      failed: 1,
      skipped: ['some stands still', 'some is still to be written', 'some all of these'],
    });
  });

  it('test/skips.json gives each a reason and the missing requirement', async () => {
    const named = JSON.parse(await readFile(join(projectDir, 'test/skips.json'), 'utf8')) as Record<
      string,
      unknown
    >[];
    for (const { tests, reason, without } of named) {
      assert.ok(typeof tests === 'string' && typeof reason === 'string' && reason.length > 10);
      assert.ok(Array.isArray(without) && without.length > 1, String(tests));
    }
  });
});
