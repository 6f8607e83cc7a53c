/** Files made once for a clone and kept: binaries of servers, tools and packages of tests. */
import { mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { projectDir } from '../src/operator/npmStart.js';

/**
 * Returns a folder under `.cache/` that only ever appears complete: two concurrent callers get the same one.
 *
 * @param make fills `home`, which becomes the folder; files left in `scratch` are removed
 * @throws errors of `make`
 */
export async function cached(
  name: string,
  make: (home: string, scratch: string) => Promise<void>,
): Promise<string> {
  const cache = join(projectDir, '.cache');
  const folder = join(cache, name);
  if (await exists(folder)) return folder;
  await mkdir(cache, { recursive: true });
  const scratch = await mkdtemp(join(cache, 'making-'));
  const home = join(scratch, 'home');
  try {
    await mkdir(home);
    await make(home, scratch);
    // Another process may have been faster: its folder is equivalent.
    await rename(home, folder).catch(async (err: unknown) => {
      if (!(await exists(folder))) throw err;
    });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  return folder;
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
