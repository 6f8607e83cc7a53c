import { mkdir, mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { projectDir } from '../src/operator/running/projectDir.js';

/** Creates a folder for the data of servers, on the project's disk: on a temporary file system a flush would cost nothing. */
export async function createDataFolder(): Promise<string> {
  const parent = join(projectDir, '.data');
  await mkdir(parent, { recursive: true });
  return await mkdtemp(join(parent, `bench-${process.pid}-`));
}
