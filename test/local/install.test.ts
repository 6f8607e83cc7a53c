import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectDir } from '../../src/operator/running/projectDir.js';

const run = promisify(execFile);

describe('the installation of npm start and npm test', () => {
  it('runs no script of a package', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'asset-update-install-'));
    try {
      const launcher = join(dir, 'local/launch.mjs');
      mkdirSync(join(dir, 'local'), { recursive: true });
      copyFileSync(join(projectDir, 'local/launch.mjs'), launcher);
      const scripts = { preinstall: 'touch ran', postinstall: 'touch ran' };
      const project = { name: 'project', version: '1.0.0', scripts };
      writeFileSync(join(dir, 'package.json'), JSON.stringify(project));
      writeFileSync(
        join(dir, 'package-lock.json'),
        JSON.stringify({ ...project, lockfileVersion: 3, packages: { '': project } }),
      );
      // Nothing is there to build; the install before it is what counts.
      const built = run(process.execPath, [launcher, 'build'], { cwd: dir });
      await assert.rejects(built, /installing dependencies/);
      assert.ok(!existsSync(join(dir, 'ran')));
    } finally {
      await rm(dir, { recursive: true });
    }
  });
});
