/** `npm run release -- --dry-run`, without programs that a machine may lack. */
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { findOnPath } from '../../local/binaries.js';
import { projectDir } from '../../src/operator/npmStart.js';
import { newFolder } from '../servers.js';
import { run } from '../tools.js';

it('a dry run makes the files of a release, names what it leaves out, and its checksums hold', async () => {
  const dir = await newFolder();
  const bin = join(dir, 'bin');
  await mkdir(bin);
  for (const program of ['sh', 'env', 'tar', 'gzip', 'node', 'npm'])
    await symlink(findOnPath(program) ?? '', join(bin, program));
  const env = { ...process.env, PATH: bin };
  const out = join(dir, 'out');
  const args = ['.ci/release.mjs', '--dry-run', '--out', out];
  const { stdout } = await run(process.execPath, args, { cwd: projectDir, env });
  assert.match(stdout, /left out: .* docker/);
  const files = await readdir(out);
  const { version } = JSON.parse(await readFile(join(projectDir, 'package.json'), 'utf8'));
  for (const name of ['service', 'client', 'listen']
    .map((one) => `asset-update-${one}`)
    .concat('asset-update'))
    assert.ok(files.includes(`${name}-${version}.tgz`), `${name} in ${files}`);
  assert.match(await readFile(join(out, 'NOTES.md'), 'utf8'), /### Added/);
  await run('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: out });
  const chart = (await run('tar', ['-tzf', join(out, `asset-update-${version}.tgz`)])).stdout;
  assert.match(chart, /^asset-update\/Chart\.yaml$/m);
  assert.doesNotMatch(chart, /examples/);
  const client = (await run('tar', ['-tzf', join(out, `asset-update-client-${version}.tgz`)])).stdout;
  assert.match(client, /^package\/dist\/client\.js$/m);
}).timeout(120_000);
