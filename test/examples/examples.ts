/** How each receiver under `examples/` is prepared and run, as its first line says, beside what the tests need. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cached } from '../../local/cached.js';
import { projectDir } from '../../src/operator/npmStart.js';
import { makeVenv } from '../pythonPackages.js';
import { atEnd } from '../servers.js';

const run = promisify(execFile);
const examples = join(projectDir, 'examples');

export interface Example {
  /** Its folder under `examples/`. */
  name: string;
  source: string;
  /** Succeeds where it can run; the same as in test/skips.json. */
  runtime: [command: string, ...args: string[]];
  /** @returns the program to run and its arguments, and where. @throws Error where it cannot be prepared */
  prepare(port: number): Promise<{ command: string; args: string[]; cwd: string }>;
}

export const allExamples: Example[] = [
  {
    name: 'node',
    source: 'receiver.mjs',
    runtime: ['npm', '--version'],
    async prepare() {
      const cwd = await installed('node', ['package.json', 'package-lock.json'], async (home) => {
        await run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: home });
      });
      // Node looks for packages beside the file.
      await cp(join(examples, 'node/receiver.mjs'), join(cwd, 'receiver.mjs'));
      return { command: process.execPath, args: ['receiver.mjs'], cwd };
    },
  },
  {
    name: 'python',
    source: 'receiver.py',
    runtime: ['python3', '-c', 'import sys; sys.exit(sys.version_info < (3, 11))'],
    async prepare(port) {
      const requirements = '../../test/examples/requirements.txt';
      const home = await installed('python', [requirements], (home) =>
        makeVenv(home, join(examples, 'python', requirements)),
      );
      const args = ['-B', '-m', 'uvicorn', 'receiver:app', '--port', String(port)];
      return { command: join(home, 'bin/python3'), args, cwd: join(examples, 'python') };
    },
  },
  {
    name: 'go',
    source: 'receiver.go',
    runtime: ['go', 'version'],
    async prepare() {
      const cwd = await temporary('example-go');
      const program = join(cwd, 'receiver');
      await run('go', ['build', '-mod=readonly', '-o', program, '.'], { cwd: join(examples, 'go') });
      return { command: program, args: [], cwd };
    },
  },
  {
    name: 'php',
    source: 'receiver.php',
    runtime: ['php', '-r', "exit(extension_loaded('pdo_sqlite') ? 0 : 1);"],
    async prepare(port) {
      const cwd = await temporary('example-php');
      const args = ['-S', `127.0.0.1:${port}`, join(examples, 'php/receiver.php')];
      return { command: 'php', args, cwd };
    },
  },
  {
    name: 'java',
    source: 'Receiver.java',
    runtime: ['javac', '--version'],
    async prepare() {
      return { command: 'java', args: ['Receiver.java'], cwd: join(examples, 'java') };
    },
  },
  {
    name: 'csharp',
    source: 'Receiver.cs',
    runtime: ['dotnet', '--version'],
    async prepare(port) {
      const cwd = await temporary('example-csharp');
      await run('dotnet', [
        'publish',
        join(examples, 'csharp'),
        '-o',
        cwd,
        '--artifacts-path',
        `${cwd}/build`,
      ]);
      return { command: 'dotnet', args: ['Receiver.dll', '--urls', `http://127.0.0.1:${port}`], cwd };
    },
  },
  {
    name: 'next',
    source: 'receiver.js',
    runtime: ['node', 'test/examples/isInstalled.mjs', 'next', 'npm'],
    async prepare(port) {
      const cwd = await installed(
        'next',
        ['../../test/examples/next/package.json', 'receiver.js'],
        async (home) => {
          const route = join(home, 'app/notifications');
          await mkdir(route, { recursive: true });
          await rename(join(home, 'receiver.js'), join(route, 'route.js'));
          await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: home });
          await run('npx', ['next', 'build'], {
            cwd: home,
            env: { ...process.env, NEXT_TELEMETRY_DISABLED: '1' },
          });
        },
      );
      const args = ['node_modules/next/dist/bin/next', 'start', '-H', '127.0.0.1', '-p', String(port)];
      return { command: process.execPath, args, cwd };
    },
  },
  {
    name: 'spring',
    source: 'Receiver.java',
    runtime: ['node', 'test/examples/isInstalled.mjs', 'spring', 'mvn', 'javac'],
    async prepare() {
      const cwd = await installed('spring', ['pom.xml', 'Receiver.java'], async (home) => {
        await run('mvn', ['-q', '-B', 'package'], { cwd: home });
      });
      return { command: 'java', args: ['-jar', 'target/receiver.jar'], cwd };
    },
  },
  {
    name: 'laravel',
    source: 'receiver.php',
    runtime: ['php', '-r', "exit(file_exists('/usr/share/php/Illuminate/autoload.php') ? 0 : 1);"],
    async prepare(port) {
      const cwd = await temporary('example-laravel');
      await cp(join(projectDir, 'test/examples/laravel/index.php'), join(cwd, 'index.php'));
      await cp(join(examples, 'laravel/receiver.php'), join(cwd, 'NotificationController.php'));
      return { command: 'php', args: ['-S', `127.0.0.1:${port}`, 'index.php'], cwd };
    },
  },
];

/** A folder that is removed after the last test. */
async function temporary(name: string): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), `${name}-`));
  atEnd(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** A folder under `.cache/` with the files of an example and what `install` puts there, once for each content. */
async function installed(
  name: string,
  files: string[],
  install: (home: string) => Promise<void>,
): Promise<string> {
  const hash = createHash('sha256');
  for (const file of files) hash.update(await readFile(join(examples, name, file)));
  const key = `${process.platform}-${process.arch}-${hash.digest('hex').slice(0, 8)}`;
  return cached(`example-${name}-${key}`, async (home) => {
    for (const file of files) await cp(join(examples, name, file), join(home, file.split('/').at(-1) ?? ''));
    await install(home);
  });
}
