/** Rules for every Lua script: its header, its includes, its keys, fields and names. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type FieldOf, fields, type HashName } from '../../src/redis/connection/fields.js';
import { clientKeys } from '../../src/redis/connection/keys.js';
import { script } from '../../src/redis/connection/script.js';
import { itWithOneRedis, servers } from '../servers.js';
import { callsOf, stringsOf, tokensOf, variablesOf } from './lua.js';

const folder = join(import.meta.dirname, '../../src/redis');
const filesIn = (path: string, suffix: string): string[] =>
  readdirSync(join(folder, path), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith(suffix),
  );
const textOf = (name: string): string => readFileSync(join(folder, 'scripts', `${name}.lua`), 'utf8');
const names = filesIn('scripts', '.lua').map((name) => name.replace(/\.lua$/, ''));
const shared = names.filter((name) => name.startsWith('shared/'));
const scripts = names.filter((name) => !name.startsWith('shared/'));
const typescript = filesIn('.', '.ts').map((name) => readFileSync(join(folder, name), 'utf8'));

const headerOf = (name: string): string[] => /^(?:--.*\n)+/.exec(textOf(name))?.[0].trim().split('\n') ?? [];
const includesOf = (name: string): string[] =>
  /^-- include: (.*)$/m
    .exec(textOf(name))?.[1]
    ?.split(', ')
    .map((part) => `shared/${part}`) ?? [];

/** The globals that Redis gives to a script. */
const given = new Set(
  'redis cjson struct string math table ipairs pairs unpack next tonumber tostring pcall error KEYS ARGV'.split(
    ' ',
  ),
);

/** Returns the names of the arguments in a header, and whether they come in the table `q`. */
function argumentsOf(name: string): { inTable: boolean; names: string[] } {
  const header = headerOf(name);
  const start = header.findIndex((line) => line.startsWith('-- Arguments'));
  const line = header[start] as string;
  if (line === '-- Arguments: none') return { inTable: false, names: [] };
  if (!line.startsWith('-- Arguments, in q')) {
    const listed = line.replace('-- Arguments: ', '').replace(/ \([^)]*\)/g, '');
    return { inTable: false, names: (listed.split(':')[0] as string).split(', ') };
  }
  const rest = header.slice(start + 1);
  const end = rest.findIndex((one) => /^-- \S/.test(one));
  const lines = rest.slice(0, end).filter((one) => /^-- {3}\w/.test(one));
  return { inTable: true, names: lines.flatMap((one) => one.slice(5).replace(/:.*/, '').split(', ')) };
}

describe('The Lua scripts', () => {
  it('say in a header keys, arguments, answer and what a repeat does', () => {
    for (const name of scripts) {
      const header = headerOf(name);
      assert.match(header[0] ?? '', /^-- [A-Z]\w+s /, `${name}: a verb comes first`);
      const labels = header.map((line) => /^-- (KEYS|Arguments|Answer|Repeat)\b/.exec(line)?.[1]);
      assert.deepEqual(labels.filter(Boolean), ['KEYS', 'Arguments', 'Answer', 'Repeat'], name);
    }
  });

  it('read the arguments that the header names, and no others', () => {
    for (const name of scripts) {
      const { source } = script(name);
      const { inTable, names: said } = argumentsOf(name);
      const first = includesOf(name).includes('shared/client') ? 2 : 1;
      const places = new Set([...textOf(name).matchAll(/ARGV\[(\d)\]/g)].map(([, place]) => Number(place)));
      if (inTable) {
        const read = new Set([...source.matchAll(/\bq\.(\w+)/g)].map(([, field]) => field));
        assert.deepEqual([...read].sort(), said.sort(), name);
        assert.deepEqual([...places], [], name);
      } else {
        const listed = /^local ([\w, ]+) = [^\n]*ARGV/m.exec(textOf(name))?.[1]?.split(', ') ?? [];
        assert.deepEqual(listed, said, name);
        assert.deepEqual(
          [...places],
          said.map((_, i) => first + i),
          name,
        );
        assert.ok(said.length <= 4, `${name}: more have names in q`);
      }
    }
  });

  it('name only declared names, and declare none without use', () => {
    for (const name of scripts) {
      const { named, declared } = variablesOf(script(name).source);
      assert.deepEqual(
        [...named.keys()].filter((one) => !declared.has(one) && !given.has(one)),
        [],
        name,
      );
      const own = variablesOf(textOf(name));
      assert.deepEqual(
        [...own.declared].filter((one) => own.named.get(one) === 1 && one !== '_'),
        [],
        name,
      );
    }
  });

  it('include only parts that they use', () => {
    for (const name of scripts) {
      const { source } = script(name);
      for (const part of includesOf(name)) {
        const defined = [...textOf(part).matchAll(/^local (?:function )?(\w+)/gm)].map(
          ([, one]) => one as string,
        );
        const isUsed = defined.some((one) => variablesOf(source).declared.has(one));
        assert.ok(isUsed, `${name}: ${part}`);
      }
    }
  });

  it('are each loaded by one TypeScript file, and every loaded one exists', () => {
    const loaded = typescript.flatMap((text) =>
      [...text.matchAll(/\bscript\('(\w+)'\)/g)].map(([, name]) => name),
    );
    assert.deepEqual(loaded.sort(), [...scripts].sort());
  });

  it('include existing parts, and every part is included', () => {
    const included = new Set(names.flatMap(includesOf));
    assert.deepEqual([...included].sort(), [...shared].sort());
  });

  it('can be pruned and stripped: definitions begin at the margin, comments are on separate lines', () => {
    for (const name of names) {
      assert.doesNotMatch(textOf(name), /\S.*--|\[\[|\t/, name);
      const margin = textOf(name).match(/^[^\s-].*$/gm) ?? [];
      if (shared.includes(name))
        for (const line of margin) assert.match(line, /^(local |end$|}$)/, `${name}: ${line}`);
    }
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
        (one) => !listed.has(one),
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
        else if (key !== 'S' && !/signing-secrets/.test(key))
          assert.ok(!used.some((one) => one.startsWith("'")), `${name}: ${key}`);
      }
      for (const reader of ['field', 'number']) check(name, 'endpoint', callsOf(textOf(name), reader).flat());
      check(
        name,
        'notification',
        callsOf(textOf(name), 'change').map(([, field = '']) => field),
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

  itWithOneRedis('are compiled by the server, under the hash by which they are called', async () => {
    const redis = new Redis(servers().redisUrl);
    for (const name of scripts) {
      const { source, sha } = script(name);
      assert.equal(await redis.script('LOAD', source), sha, name);
    }
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
  if (/^record \(/.test(key) || (key === 'key' && name === 'recover')) return 'notification';
  const suffix = /^base \.\. '(\w+)'$/.exec(key)?.[1];
  return suffix !== undefined && suffix in fields ? (suffix as HashName) : undefined;
}
