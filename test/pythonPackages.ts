import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { pip } from '../local/wheel.js';

/** Makes a virtual environment in a folder, with the packages of a file. */
export async function makeVenv(home: string, requirements: string): Promise<void> {
  await promisify(execFile)('python3', ['-m', 'venv', home]);
  await pip(`${home}/bin/python3`, ['install'], requirements);
}
