import { createHash } from 'node:crypto';
import type { Db } from './db.js';
import { evalScript } from './evalsha.js';
import type { Script, ScriptArgument } from './script.js';

/** A script whose keys are given to it, all of one account. */
export function script(source: string): Script {
  return { source, sha: createHash('sha1').update(source).digest('hex') };
}

/** Runs such a script. */
export function evaluate(
  db: Db,
  script: Script,
  keys: readonly string[],
  args: readonly ScriptArgument[],
): Promise<unknown> {
  return evalScript(db.redis, script, keys, args, 'utf8');
}
