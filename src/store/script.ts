import { createHash } from 'node:crypto';
import type { Db } from './db.js';
import { evalScript, type Script, type ScriptArgument } from './evalsha.js';

export function script(source: string): Script {
  return { source, sha: createHash('sha1').update(source).digest('hex') };
}

/**
 * A script of one client. It starts with `base` (what stands before each of the client's keys), `now` (Redis' clock in
 * ms), `time` (the same as TIME answers it) and ARGV from 2 on; what it needs of `prelude` (such as `endpointLua`) comes
 * before `body`.
 */
export function clientScript(body: string, ...prelude: string[]): Script {
  const lines = [
    'local base = KEYS[1]',
    "local time = redis.call('TIME')",
    'local now = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])',
    withWhatItNeeds(body, prelude.join('\n')),
  ];
  return script(lines.join('\n'));
}

/**
 * A script makes each function that it has anew in every call, used or not: what `body` does not name is left out. A
 * definition of the prelude begins with `local` at the beginning of a line, and ends before the next.
 */
function withWhatItNeeds(body: string, prelude: string): string {
  const definitions = prelude.split(/^(?=local )/m);
  return definitions.reduceRight((rest, definition) => {
    const names = definition.match(/^local (?:function )?(\w+(?:, \w+)*)/)?.[1]?.split(', ') ?? [];
    return names.some((name) => new RegExp(`\\b${name}\\b`).test(rest)) ? definition + rest : rest;
  }, body);
}

/** Runs a script for one client. Strings come back as Buffers: known segments and ids in them are bytes. */
export function runScript(
  db: Db,
  given: Script,
  clientToken: string,
  args: readonly ScriptArgument[],
): Promise<unknown> {
  const base = db.client(clientToken).base;
  return evalScript(db.redis, given, [base], [db.clockOffsetMs(), ...args], null);
}

/** Text of a Buffer in a script's answer. */
export function text(value: unknown): string {
  return Buffer.isBuffer(value) ? value.toString() : String(value);
}
