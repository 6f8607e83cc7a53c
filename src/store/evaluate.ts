import { createHash } from 'node:crypto';
import type { Db } from './db.js';
import { evalsha } from './evalsha.js';
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
    return await evalsha(db.redis, sha, keys, args, 'utf8');
  } catch (err) {
    if (!(err instanceof Error && err.message.startsWith('NOSCRIPT'))) throw err;
    return await db.redis.eval(source, keys.length, ...keys, ...args);
  }
}
