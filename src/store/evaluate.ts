import { createHash } from 'node:crypto';
import type { Db } from './db.js';
import type { Script, ScriptArgument } from './script.js';

/** A script whose keys are given to it, all of one account. */
export function script(source: string): Script {
  return { source, sha: createHash('sha1').update(source).digest('hex') };
}

/** Runs such a script by its hash, sent whole only where the server does not have it yet. */
export async function evaluate(
  db: Db,
  { sha, source }: Script,
  keys: readonly string[],
  args: readonly ScriptArgument[],
): Promise<unknown> {
  try {
    return await db.redis.evalsha(sha, keys.length, ...keys, ...args);
  } catch (err) {
    if (!(err instanceof Error && err.message.startsWith('NOSCRIPT'))) throw err;
    return await db.redis.eval(source, keys.length, ...keys, ...args);
  }
}
