/** Rules for the library of Lua scripts: its headers, keys, fields and names. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type FieldOf, fields, type HashName } from '../../src/redis/connection/fields.js';
import { clientKeys } from '../../src/redis/connection/keys.js';
import { library, loadLibrary, files as names } from '../../src/redis/connection/library.js';
import { itWithOneRedis, servers } from '../servers.js';
import { callsOf, stringsOf, tokensOf, variablesOf } from './lua.js';

const folder = join(import.meta.dirname, '../../src');
const filesIn = (path: string, suffix: string): string[] =>
  readdirSync(join(folder, path), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith(suffix),
  );
const textOf = (name: string): string => readFileSync(join(folder, 'redis/scripts', `${name}.lua`), 'utf8');
const typescript = filesIn('.', '.ts').map((name) => readFileSync(join(folder, name), 'utf8'));

interface Entry {
  name: string;
  /** The lines of the comment before it. */
  header: string[];
  /** What follows, until the next function. */
  body: string;
}

const entries = names.flatMap((file): Entry[] =>
  [
    ...textOf(file).matchAll(/((?:^--.*\n)*)^entry\('(\w+)',([\s\S]*?)(?=^local |^entry|^--|(?![\s\S]))/gm),
  ].map(([, header = '', name = '', body = '']) => ({ name, header: header.trim().split('\n'), body })),
);

/** The globals that Redis gives to a library. */
const given = new Set(
  'redis cjson struct string math table ipairs pairs unpack next tonumber tostring pcall error RELEASE'.split(
    ' ',
  ),
);

describe('The Lua scripts', () => {
  it('say in a header keys, arguments, answer and what a repeat does', () => {
    for (const { name, header } of entries) {
      if (/^-- As `\w+`, /.test(header[0] ?? '')) continue;
      assert.match(header[0] ?? '', /^-- [A-Z]\w+s /, `${name}: a verb comes first`);
      const labels = header.map((line) => /^-- (KEYS|Arguments|Answer|Repeat)\b/.exec(line)?.[1]);
      assert.deepEqual(labels.filter(Boolean), ['KEYS', 'Arguments', 'Answer', 'Repeat'], name);
    }
  });

  it('read as many arguments as the header names', () => {
    for (const { name, header, body } of entries) {
      const whole = header.map((line) => line.replace(/^-- {2,}/, '')).join(' ');
      const said = /-- Arguments: ([^;]*?) -- Answer/.exec(whole)?.[1];
      if (said === undefined || !/ARGV\[\d/.test(body)) continue;
      const listed = said.replace(/ \([^)]*\)/g, '').split(', ');
      const last = Math.max(1, ...[...body.matchAll(/ARGV\[(\d)\]/g)].map(([, place]) => Number(place)));
      assert.equal(last - 1, said === 'none' ? 0 : listed.length, name);
    }
  });

  it('name only declared names, of this file or one before it, and declare none without use', () => {
    const before = new Set(given);
    const all = variablesOf(names.map(textOf).join(''));
    for (const name of names) {
      const { named, declared } = variablesOf(textOf(name));
      const unknown = [...named.keys()].filter((one) => !declared.has(one) && !before.has(one));
      assert.deepEqual(unknown, [], name);
      for (const one of declared) {
        before.add(one);
        assert.ok(one === '_' || (all.named.get(one) ?? 0) > 1, `${name}: ${one} is not used`);
      }
    }
  });

  it('are all in the library, and each is called by TypeScript', () => {
    assert.deepEqual(
      [...names].sort(),
      filesIn('redis/scripts', '.lua')
        .map((name) => name.replace(/\.lua$/, ''))
        .sort(),
    );
    const called = typescript.flatMap((text) =>
      [...text.matchAll(/\b(?:runScript|evaluate)\(\s*[\w.]+,\s*'(\w+)'/g)].map(([, name]) => name as string),
    );
    const known = entries.map(({ name }) => name);
    assert.deepEqual(
      called.filter((name) => !known.includes(name)),
      [],
    );
    const all = typescript.join('\n');
    assert.deepEqual(
      known.filter((name) => !all.includes(`'${name}'`)),
      [],
    );
  });

  it('can be stripped: comments are on separate lines', () => {
    for (const name of names) assert.doesNotMatch(textOf(name), /\S.*--|\[\[|\t/, name);
  });

  it('name keys that keys.ts lists', () => {
    const base = '{T}:';
    const slot = { bucket: '', field: Buffer.of() };
    const keys = clientKeys('', 'T');
    const listed = new Set(
      Object.values(keys)
        .map((key) =>
          typeof key === 'string'
            ? key
            : key === keys.knownBeside
              ? keys.knownBeside(slot)
              : (key as (id: string) => string)(''),
        )
        .map((key) => key.toString().slice(base.length)),
    );
    for (const name of names) {
      const tokens = tokensOf(textOf(name));
      const behindBase = tokens.filter(
        (one, i) => tokens[i - 2] === 'base' && tokens[i - 1] === '..' && /^'/.test(one),
      );
      const alike = stringsOf(textOf(name)).filter((one) => /^[a-z]+[-:][a-z:-]*$/.test(one));
      const unknown = [...behindBase.map((one) => one.slice(1, -1)), ...alike].filter(
        (one) => !listed.has(one) && one !== 'allow-oom' && one !== 'no-writes',
      );
      assert.deepEqual(unknown, [], name);
    }
  });

  it('name fields that fields.ts lists, and TypeScript names the same', () => {
    const wrong: string[] = [];
    const check = (where: string, hash: HashName, used: readonly string[]) => {
      for (const one of used) {
        const field = /^'(\w+)'$/.exec(one)?.[1] as FieldOf<typeof hash> | undefined;
        if (field !== undefined && !(fields[hash] as readonly string[]).includes(field))
          wrong.push(`${where}: ${hash} ${field}`);
      }
    };
    for (const name of names) {
      for (const [command = '', key = '', ...args] of callsOf(textOf(name), 'redis.call')) {
        const used = fieldsUsed(command.slice(1, -1), args);
        const hash = hashOf(name, key);
        if (hash !== undefined) check(name, hash, used);
        else if (key !== 'S' && key !== 'secrets_key ( )' && !/signing-secrets/.test(key))
          assert.ok(!used.some((one) => one.startsWith("'")), `${name}: ${key}`);
      }
      for (const reader of ['field', 'number']) check(name, 'endpoint', callsOf(textOf(name), reader).flat());
      check(
        name,
        'notification',
        callsOf(textOf(name), 'change').map(([field = '']) => field),
      );
    }
    const call =
      /\.h(?:get|mget|exists|del|set|setnx)\(\s*(?:\w+\.)*(?:client\(\w+\)\.)?(\w+)(?:\(\w+\))?,\s*((?:'\w+'(?:, ?|\)))+)/g;
    for (const text of typescript) {
      for (const [, hash = '', used = ''] of text.matchAll(call)) {
        if (hash in fields) check('TypeScript', hash as HashName, used.split(/, ?|\)/));
      }
    }
    assert.deepEqual(wrong, []);
  });

  it('use every listed field', () => {
    const all = [
      ...names.map(textOf),
      ...typescript.filter((text) => !text.includes('export const fields')),
    ].join('\n');
    const unused = Object.values(fields)
      .flat()
      .filter((field) => !new RegExp(`['".]${field}\\b|\\b${field}:`).test(all));
    assert.deepEqual(unused, []);
  });

  itWithOneRedis('are compiled by the server, each under the name by which it is called', async () => {
    const redis = new Redis(servers().redisUrl);
    await loadLibrary(redis);
    const [, libraryName, release] = /^#!lua name=(\w+?(_\w{12}))\n/.exec(library) ?? [];
    const listed = (await redis.call(
      'FUNCTION',
      'LIST',
      'LIBRARYNAME',
      libraryName as string,
    )) as unknown[][];
    const functions = (listed[0]?.[listed[0].indexOf('functions') + 1] ?? []) as unknown[][];
    const loaded = functions.map((one) => one[one.indexOf('name') + 1]);
    assert.deepEqual(loaded.sort(), entries.map(({ name }) => `${name}${release}`).sort());
    redis.disconnect();
  });
});

function fieldsUsed(command: string, args: readonly string[]): readonly string[] {
  if (/^(HMGET|HDEL)$/.test(command)) return args;
  if (/^(HGET|HEXISTS|HINCRBY|HSETNX)$/.test(command)) return args.slice(0, 1);
  return command === 'HSET' ? args.filter((_, i) => i % 2 === 0) : [];
}

/** Returns the hash that a key in a script stands for. */
function hashOf(name: string, key: string): HashName | undefined {
  if (key === 'E') return 'endpoint';
  if (key === 'R') return 'registration';
  if (key === 'A' || key === 'KEYS [ 1 ]') return 'account';
  if (/^record \(/.test(key) || (key === 'key' && name === 'notification')) return 'notification';
  const suffix = /^base \.\. '(\w+)'$/.exec(key)?.[1];
  return suffix !== undefined && suffix in fields ? (suffix as HashName) : undefined;
}
