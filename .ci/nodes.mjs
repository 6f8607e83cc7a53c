/**
 * Runs tests on every Node that package.json names: `npm run test:nodes [-- [--only 24] FILES...]`, all of `npm test`
 * without files. npm's `node-<platform>-<arch>` packages bring the binaries; they are kept under `.cache/`.
 * The last lines say which version passed. The exit status is 1 if one failed.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The oldest supported release of 20, and the newest of each later line with long-term support. */
const versions = ['20.19.6', '22.23.3', '24.21.0', '26.10.0'];

const projectDir = join(dirname(fileURLToPath(import.meta.url)), '..');
const cache = join(projectDir, '.cache');
const args = process.argv.slice(2);
const only = args[0] === '--only' ? args.splice(0, 2)[1] : '';

const results = versions
  .filter((version) => version.startsWith(only))
  .map((version) => {
    const node = nodeOf(version);
    console.log(`== Node ${version}`);
    const { status } = spawnSync(node, [join(projectDir, 'local/launch.mjs'), 'test', ...args], {
      cwd: projectDir,
      stdio: 'inherit',
      // Programs that a test starts as `node` use this Node too.
      env: { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH ?? ''}` },
    });
    return { version, passed: status === 0 };
  });
console.log(
  results.map(({ version, passed }) => `Node ${version}: ${passed ? 'passed' : 'FAILED'}`).join('\n'),
);
process.exitCode = results.length > 0 && results.every(({ passed }) => passed) ? 0 : 1;

/** Returns the path of its executable. npm checks a download against the registry's hash, and runs no scripts. */
function nodeOf(version) {
  const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
  const home = join(cache, `${name}-${version}`);
  const node = join(home, 'node_modules', name, 'bin', 'node');
  if (existsSync(node)) return node;
  mkdirSync(cache, { recursive: true });
  const work = mkdtempSync(join(cache, 'making-'));
  const { status } = spawnSync(
    'npm',
    [
      'install',
      '--prefix',
      work,
      '--ignore-scripts',
      '--no-save',
      '--no-audit',
      '--no-fund',
      `${name}@${version}`,
    ],
    { cwd: work, stdio: ['ignore', 2, 2] },
  );
  if (status !== 0) throw new Error(`npm could not fetch ${name}@${version}`);
  rmSync(home, { recursive: true, force: true });
  renameSync(work, home);
  return node;
}
