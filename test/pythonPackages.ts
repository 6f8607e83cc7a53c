import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** Runs `pip install` or `pip download` for the packages of a file, which names the hash of each. */
export async function pip(python: string, command: readonly string[], requirements: string): Promise<void> {
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-input'];
  const pinned = ['--only-binary', ':all:', '--require-hashes', '-r', requirements];
  await promisify(execFile)(python, ['-m', 'pip', ...command, ...quiet, ...pinned]);
}

/** Makes a virtual environment in a folder, with the packages of a file. */
export async function makeVenv(home: string, requirements: string): Promise<void> {
  await promisify(execFile)('python3', ['-m', 'venv', home]);
  await pip(`${home}/bin/python3`, ['install'], requirements);
}
