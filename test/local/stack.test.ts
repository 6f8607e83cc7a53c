/** Messages of `npm run stack` if it cannot run, or does not run; test/stack runs it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { temporalVersion } from '../../local/stack/programs.js';
import { projectDir } from '../../src/operator/running/projectDir.js';

describe('npm run stack while it does not run', () => {
  let dir: string;
  let bin: string;

  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'asset-update-stack-'));
    bin = await mkdtemp(join(tmpdir(), 'asset-update-bin-'));
    await symlink('/bin/sh', join(bin, 'sh'));
  });
  after(() => Promise.all([dir, bin].map((one) => rm(one, { recursive: true, force: true }))));

  function stack(...args: string[]) {
    const { status, stdout, stderr } = spawnSync(process.execPath, ['local/launch.mjs', 'stack', ...args], {
      cwd: projectDir,
      encoding: 'utf8',
      env: { ...process.env, DATA_DIR: dir, PATH: bin, POSTGRESQL_BIN: bin },
    });
    return { status, output: stdout + stderr };
  }

  it('up names each missing program and how to install it, and leaves nothing running', () => {
    const { status, output } = stack('up');
    assert.equal(status, 1, output);
    assert.match(output, /POSTGRESQL_BIN names no folder with postgres, initdb/);
    assert.doesNotMatch(output, /PostgreSQL 13 or newer is missing/);
    assert.match(output, /HAProxy is missing: apt-get install haproxy/);
    assert.match(
      output,
      new RegExp(`Temporal's server is missing: install Go .* which builds ${temporalVersion()} once`),
    );
    assert.equal(existsSync(join(dir, 'stack', 'run.json')), false);
  });

  it('status and backup fail, and down succeeds', () => {
    assert.deepEqual(
      [stack('status'), stack('backup'), stack('down')].map(({ status, output }) => [status, output.trim()]),
      [
        [1, 'the stack does not run'],
        [1, 'the stack does not run; start it with npm run stack -- up'],
        [0, 'the stack does not run'],
      ],
    );
  });

  it('restore refuses a folder without backup.json', () => {
    const { status, output } = stack('restore', bin);
    assert.equal(status, 1);
    assert.match(output, /is not a backup: it has no backup.json/);
  });
});
