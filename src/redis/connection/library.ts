/**
 * Calls the Lua scripts, `src/redis/scripts/*.lua`: one library of Redis functions, which a server loads once (Redis 7 or
 * newer) and which costs a third less of its CPU than scripts that create their functions in each call
 * (docs/benchmarks/decisions.md). The comment before each `entry` has its arguments and its answer (`entry` in client.lua). Library
 * and functions are named after their content, so that two releases work side by side.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { shared } from '../../constants.js';
import { except, mapInPages } from '../../promises.js';
import { luaName, readers, type ScriptArgument } from './arguments.js';
import { clientBase, clientKeys } from './keys.js';
import type { Nodes } from './nodes.js';
import { isLoaded, isNotLoaded } from './unavailable.js';

/** The part of `Db` that a script needs; `Db` imports this file. */
interface Store {
  redis: Redis;
  nodes: Nodes;
  clockOffsetMs(): number;
  /** The caller's clock, ms; absent: this machine's, with the offset. */
  callersNow?(): number;
}

/** Each file uses only those before it. */
export const files = [
  'client notification endpoint take known updates claim failed health settle',
  'plan secrets change replay lists rates account installation',
].flatMap((names) => names.split(' '));
const folder = join(import.meta.dirname, '../scripts');
const withoutComments = (text: string): string => text.replace(/^ *(--.*)?\n/gm, '').replace(/^ +/gm, '');
const constants = Object.entries(shared)
  .map(([name, value]) => `${luaName(name)} = ${JSON.stringify(value)}`)
  .join(', ');
const source = [
  `local const = {${constants}}\nlocal args = {}\n`,
  ...readers,
  ...files.map((name) => withoutComments(readFileSync(join(folder, `${name}.lua`), 'utf8'))),
].join('');
const release = `_${createHash('sha256').update(source).digest('hex').slice(0, 12)}`;

export const libraryName = `asset_update${release}`;
export const library = `#!lua name=${libraryName}\nlocal RELEASE = '${release}'\n${source}`;

/**
 * Runs a script of one client, with the prefix of the client's keys, which is not a key itself. While a cluster moves
 * the client's slot key by key, some keys are on one node and some on the other, and a script would fail halfway or
 * find nothing. With a second name, both nodes refuse the whole script (TRYAGAIN) until the slot has moved, because the prefix
 * is never there.
 */
export function runScript<Answer = unknown>(
  db: Store & { prefix: string },
  name: string,
  clientToken: string,
  args: readonly ScriptArgument[] = [],
): Promise<Answer> {
  const base = clientBase(db.prefix, clientToken);
  const keys = db.nodes.isCluster ? [base, clientKeys(db.prefix, clientToken).client] : [base];
  return evaluate(db, name, keys, args);
}

/** Runs a script of one client whose answer is JSON. */
export const askScript = <Answer>(...call: Parameters<typeof runScript>): Promise<Answer> =>
  runScript<string>(...call).then((json) => JSON.parse(json));

/** Runs a script with the given keys, all of one hash tag. Strings of its answer are returned as text. */
export function evaluate<Answer = unknown>(
  { redis, nodes, clockOffsetMs, callersNow }: Store,
  name: string,
  keys: readonly string[],
  args: readonly ScriptArgument[] = [],
): Promise<Answer> {
  const offsetMs = clockOffsetMs();
  const server = nodes.ownerOf(keys[0] ?? '');
  const turned = server === undefined ? 0 : (nodes.turned.get(server) ?? 0);
  const clocks = `${offsetMs} ${callersNow?.() ?? Date.now() + offsetMs} ${turned}`;
  const sent = [name + release, keys.length, ...keys, clocks, ...args];
  const call = () => redis.call('FCALL', sent) as Promise<Answer>;
  return call().catch(async (err) => {
    if (!isNotLoaded(err)) throw err;
    // No other server's outage may fail the call.
    const owner = nodes.ownerOf(keys[0] ?? '');
    if (owner !== undefined) await loadLibrary(owner);
    return call();
  });
}

const keysPerCall = 200;

/**
 * Runs a reading command on each of many keys, which need share no hash tag: a call for each would take ten times as much CPU.
 * @returns the answers in turn, or errors in place of them: keys may be broken
 */
export async function readEachKey<Answer>(
  db: Store,
  keys: readonly string[],
  command: string,
  args: readonly ScriptArgument[],
  rest?: () => Promise<void>,
): Promise<(Answer | Error)[]> {
  const [size, atOnce] = db.nodes.isCluster ? [1, 50] : [keysPerCall, 1];
  const pieces = Array.from({ length: Math.ceil(keys.length / size) }, (_, i) =>
    keys.slice(i * size, (i + 1) * size),
  );
  const read = (some: string[]) => evaluate<(Answer | Error)[]>(db, 'readEach', some, [command, ...args]);
  return (await mapInPages(pieces, atOnce, read, rest)).flat();
}

/** @throws what stands in place of an answer */
export function answerOf<Answer>(answer: Answer | Error): Answer {
  if (answer instanceof Error) throw answer;
  return answer;
}

/** Loads the library into a server, unless it has the library. @throws errors of Redis */
export const loadLibrary = (server: Redis): Promise<unknown> =>
  server.call('FUNCTION', ['LOAD', library]).catch(except(isLoaded));
