import type { Db } from './db.js';
import { evalScript, type Script, type ScriptArgument } from './script.js';

/** Runs a script whose keys are given to it, all of one account. */
export function evaluate(
  db: Db,
  script: Script,
  keys: readonly string[],
  args: readonly ScriptArgument[],
): Promise<unknown> {
  return evalScript(db.redis, script, keys, args, 'utf8');
}
