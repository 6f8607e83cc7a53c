/** Schemathesis in a virtual environment of its own under `.cache/`, installed at first use. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cached } from '../../local/cached.js';

const run = promisify(execFile);
const requirements = join(import.meta.dirname, 'requirements.txt');

/** There is no python3 that it runs on. */
export class NoPython extends Error {
  override name = 'NoPython';
}

/** @returns what to run: a program and its first arguments. @throws NoPython; Error where pip cannot install it */
export async function fuzzer(): Promise<[program: string, ...args: string[]]> {
  const hash = createHash('sha256')
    .update(await readFile(requirements))
    .digest('hex')
    .slice(0, 8);
  const home = await cached(`schemathesis-${process.platform}-${process.arch}-${hash}`, install);
  // Not bin/st: a script names its interpreter by an absolute path, and the folder was moved into place.
  return [join(home, 'bin', 'python3'), '-m', 'schemathesis.cli'];
}

async function install(home: string): Promise<void> {
  await run('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 11))']).catch(() => {
    throw new NoPython('the fuzzer needs python3, 3.11 or newer');
  });
  await run('python3', ['-m', 'venv', home]);
  await run(join(home, 'bin', 'python3'), [
    ...['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-input'],
    ...['--only-binary', ':all:', '--require-hashes', '-r', requirements],
  ]);
}
