import type { Redis } from 'ioredis';
import type { Db } from './db.js';
import { clientBase } from './keys.js';
import type { Script } from './script.js';

export type ScriptArgument = string | number | Buffer;

/** Runs a script of one client whose arguments are ARGV from 2 on. Strings are returned as Buffers, as some are bytes. */
export function runScript(
  db: Db,
  given: Script,
  clientToken: string,
  args: readonly ScriptArgument[],
): Promise<unknown> {
  return evalScript(db.redis, given, keysOf(db, clientToken), [db.clockOffsetMs(), ...args], null);
}

/** Runs a script of one client that reads its arguments from `q` (shared/table.lua). Strings are returned as text. */
export function runTable(
  db: Db,
  given: Script,
  clientToken: string,
  q: object,
  bytes: readonly Buffer[] = [],
): Promise<unknown> {
  const args = [db.clockOffsetMs(), JSON.stringify(q), Buffer.concat(bytes)];
  return evalScript(db.redis, given, keysOf(db, clientToken), args, 'utf8');
}

/** Runs a script with the given keys, all of one hash tag. Strings are returned as text. */
export function evaluate(
  db: Db,
  given: Script,
  keys: readonly string[],
  args: readonly ScriptArgument[],
): Promise<unknown> {
  return evalScript(db.redis, given, keys, args, 'utf8');
}

/**
 * Returns KEYS of a client's script: the prefix of the client's keys, which is not a key itself. While a cluster moves
 * the client's slot key by key, some keys are on one node and some on the other, and a script would fail halfway or
 * find nothing. With a second name, both nodes refuse the whole script (TRYAGAIN) until the slot has moved, because the prefix
 * is never there.
 */
function keysOf(db: Db, clientToken: string): string[] {
  const base = clientBase(db.prefix, clientToken);
  return db.nodes.isCluster ? [base, db.client(clientToken).client] : [base];
}

/**
 * Runs a script by its hash, and sends it whole only to a server that does not have it yet.
 *
 * @param encoding of the strings in the answer; null: as Buffers
 */
async function evalScript(
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

/** Returns the text of a Buffer in a script's answer. */
export function text(value: unknown): string {
  return Buffer.isBuffer(value) ? value.toString() : String(value);
}
