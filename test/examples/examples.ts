/** How each receiver under `examples/` is prepared and run, as its first line says, beside what the tests need. */
import { cp, mkdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/npmStart.js';
import { newFolder } from '../servers.js';
import { briefJava, installed, makeVenv, run } from '../tools.js';

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
      // Node looks for packages beside the file.
      const cwd = await made('node', ['package.json', 'package-lock.json', 'receiver.mjs'], (home) =>
        run('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: home }),
      );
      return { command: process.execPath, args: ['receiver.mjs'], cwd };
    },
  },
  {
    name: 'python',
    source: 'receiver.py',
    runtime: ['python3', '-c', 'import sys; sys.exit(sys.version_info < (3, 11))'],
    async prepare(port) {
      const requirements = '../../test/examples/requirements.txt';
      const home = await made('python', [requirements], (home) =>
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
      const cwd = await builtOnce('go', (home) =>
        run('go', ['build', '-mod=readonly', '-o', join(home, 'receiver'), '.'], {
          cwd: join(examples, 'go'),
        }),
      );
      return { command: join(cwd, 'receiver'), args: [], cwd };
    },
  },
  {
    name: 'php',
    source: 'receiver.php',
    runtime: ['php', '-r', "exit(extension_loaded('pdo_sqlite') ? 0 : 1);"],
    async prepare(port) {
      const cwd = await newFolder();
      const args = ['-d', 'display_errors=1', '-S', `127.0.0.1:${port}`, join(examples, 'php/receiver.php')];
      return { command: 'php', args, cwd };
    },
  },
  {
    name: 'java',
    source: 'Receiver.java',
    runtime: ['javac', '--version'],
    async prepare() {
      // As `java Receiver.java` compiles it, at each start.
      const cwd = await builtOnce('java', (home) =>
        run('javac', ['-d', home, join(examples, 'java/Receiver.java')]),
      );
      return { command: 'java', args: [...briefJava, 'Receiver'], cwd };
    },
  },
  {
    name: 'csharp',
    source: 'Receiver.cs',
    runtime: ['dotnet', '--version'],
    async prepare(port) {
      const cwd = await newFolder();
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
      const cwd = await made(
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
      const cwd = await made('spring', ['pom.xml', 'Receiver.java'], (home) =>
        run('mvn', ['-q', '-B', 'package'], { cwd: home }),
      );
      return { command: 'java', args: [...briefJava, '-jar', 'target/receiver.jar'], cwd };
    },
  },
  {
    name: 'laravel',
    source: 'receiver.php',
    runtime: ['php', '-r', "exit(file_exists('/usr/share/php/Illuminate/autoload.php') ? 0 : 1);"],
    async prepare(port) {
      const cwd = await newFolder();
      await cp(join(projectDir, 'test/examples/laravel/index.php'), join(cwd, 'index.php'));
      await cp(join(examples, 'laravel/receiver.php'), join(cwd, 'NotificationController.php'));
      return { command: 'php', args: ['-S', `127.0.0.1:${port}`, 'index.php'], cwd };
    },
  },
];

/** The folders of programs, each built for its first start. */
const built = new Map<string, Promise<string>>();

function builtOnce(name: string, build: (home: string) => Promise<unknown>): Promise<string> {
  const known = built.get(name) ?? newFolder().then((home) => build(home).then(() => home));
  built.set(name, known);
  return known;
}

const made = (name: string, files: string[], install: (home: string) => Promise<unknown>): Promise<string> =>
  installed(
    `example-${name}`,
    files.map((file) => join(examples, name, file)),
    install,
  );
