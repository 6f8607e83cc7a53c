import { readdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';

/** The file that Redis appends to now: the newest of its append-only folder. */
export async function appendOnlyFile(redisDir: string): Promise<string> {
  const dir = join(redisDir, 'appendonlydir');
  const number = (name: string) => Number(/\.(\d+)\.incr\.aof$/.exec(name)?.[1] ?? -1);
  const [newest] = (await readdir(dir))
    .filter((name) => number(name) >= 0)
    .sort((a, b) => number(b) - number(a));
  if (newest === undefined) throw new Error(`no append-only file in ${dir}`);
  return join(dir, newest);
}

export async function sizeOf(file: string): Promise<number> {
  return (await stat(file)).size;
}

/** Makes the file that a crash in the middle of a write leaves. */
export async function tearOff(file: string, bytes: number): Promise<void> {
  await truncate(file, (await sizeOf(file)) - bytes);
}
