import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Db } from './db.js';

export type ScriptArgument = string | number | Buffer;

export interface Script {
  source: string;
  sha: string;
}

export function script(source: string): Script {
  return { source, sha: createHash('sha1').update(source).digest('hex') };
}

/**
 * A script of one client. It starts with `base` (what stands before each of the client's keys), `now` (Redis' clock in
 * ms) and ARGV from 2 on; what it needs of the shared parts (such as `endpointLua`) comes before `body`.
 */
export function clientScript(body: string, ...shared: string[]): Script {
  const lines = [
    'local base = KEYS[1]',
    "local time = redis.call('TIME')",
    'local now = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])',
    withWhatItNeeds(body, shared.join('\n')),
  ];
  return script(lines.join('\n'));
}

/**
 * A script makes each function that it has anew in every call, used or not: what `body` does not name is left out. A
 * definition of the shared parts begins with `local` at the beginning of a line, and ends before the next.
 */
function withWhatItNeeds(body: string, shared: string): string {
  const definitions = shared.split(/^(?=local )/m);
  return definitions.reduceRight((rest, definition) => {
    const names = definition.match(/^local (?:function )?(\w+(?:, \w+)*)/)?.[1]?.split(', ') ?? [];
    return names.some((name) => new RegExp(`\\b${name}\\b`).test(rest)) ? definition + rest : rest;
  }, body);
}

/**
 * A script of one client whose arguments are one table, `q`; what of them is bytes lies one after the other in a second
 * argument, of which `bytes(n)` reads the next.
 */
export function tableScript(body: string, ...shared: string[]): Script {
  return clientScript(body, tableLua, ...shared);
}

const tableLua = `
local q = cjson.decode(ARGV[2])
local bytes_read = 0
local function bytes(n)
  bytes_read = bytes_read + n
  return string.sub(ARGV[3], bytes_read - n + 1, bytes_read)
end
`;

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

/** Runs a script made by `tableScript`. Strings come back as text. */
export function runTable(
  db: Db,
  given: Script,
  clientToken: string,
  q: object,
  bytes: readonly Buffer[],
): Promise<unknown> {
  const args = [db.clockOffsetMs(), JSON.stringify(q), Buffer.concat(bytes)];
  return evalScript(db.redis, given, [db.client(clientToken).base], args, 'utf8');
}

/**
 * Runs a script by its hash, sent whole only where the server does not have it yet.
 *
 * @param encoding of the strings in the answer; null: as Buffers
 */
export async function evalScript(
  redis: Redis,
  { sha, source }: Script,
  keys: readonly string[],
  args: readonly ScriptArgument[],
  encoding: 'utf8' | null,
): Promise<unknown> {
  const call = (command: string, first: string): Promise<unknown> => {
    const all = [first, keys.length, ...keys, ...args];
    return encoding === null ? redis.callBuffer(command, all) : redis.call(command, all);
  };
  try {
    return await call('EVALSHA', sha);
  } catch (err) {
    if (!(err instanceof Error && err.message.startsWith('NOSCRIPT'))) throw err;
    return await call('EVAL', source);
  }
}

/** Text of a Buffer in a script's answer. */
export function text(value: unknown): string {
  return Buffer.isBuffer(value) ? value.toString() : String(value);
}
