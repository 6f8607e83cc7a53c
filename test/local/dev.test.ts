import assert from 'node:assert/strict';
import { utimesSync } from 'node:fs';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/running/projectDir.js';
import { StartedProject } from './startedProject.js';

describe('npm run dev', () => {
  let project: StartedProject;
  before(async () => {
    project = await StartedProject.inNewFolder('dev');
  });
  after(() => project.remove());

  it('restarts the service when a source file changes, and leaves Redis and Temporal running', async function () {
    this.timeout(120_000);
    const before = await project.start();
    const now = new Date();
    utimesSync(join(projectDir, 'src/main.ts'), now, now);
    await project.said(/src\/main\.ts changed\s+service stopped\s+service +http/);
    const after = project.state();
    const kept = after.children.filter(({ pid }) => before.children.some((child) => child.pid === pid));
    assert.deepEqual([before.children.length, kept.length, after.children.length], [3, 2, 3]);
    assert.equal((await fetch(`${after.apiUrl}/readyz`)).status, 200);
  });
});
