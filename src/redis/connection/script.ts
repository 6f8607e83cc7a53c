/**
 * Loads the Lua scripts, `src/redis/scripts/<name>.lua`. The header comment of a script describes its purpose, its KEYS, its
 * arguments by name, its answer and the effect of a repeated call. A line `-- include: a, b` in it names the parts from
 * `scripts/shared` that it uses, which may include others in turn. `test/redis/scripts.test.ts` checks all of this.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Script {
  source: string;
  sha: string;
}

const folder = join(import.meta.dirname, '../scripts');

/** Reads a script with the parts that it includes, once for each caller. @throws if a file is missing */
export function script(name: string): Script {
  const source = compose(read(name), (part) => read(`shared/${part}`));
  return { source, sha: createHash('sha1').update(source).digest('hex') };
}

const read = (name: string): string => readFileSync(join(folder, `${name}.lua`), 'utf8');

/** Returns the text for Redis: the parts that the body needs, then the body, without comments and indentation. */
export function compose(body: string, readPart: (name: string) => string): string {
  const shared = includedBy(body, readPart).map((part) => withoutComments(readPart(part)));
  return withWhatItNeeds(withoutComments(body), shared.join('')).replace(/^ +/gm, '');
}

/** Returns the names of the parts that a file includes, each once and after the parts that it needs itself. */
function includedBy(text: string, readPart: (name: string) => string): string[] {
  const names = /^-- include: (.*)$/m.exec(text)?.[1]?.split(', ') ?? [];
  return [...new Set(names.flatMap((name) => [...includedBy(readPart(name), readPart), name]))];
}

const withoutComments = (text: string): string => text.replace(/^ *(--.*)?\n/gm, '');

/**
 * Leaves out the shared definitions that `body` does not name: every call of a script creates all of its functions, used
 * or not, which took a tenth of Redis' CPU. A definition begins with `local` at the beginning of a line and ends before
 * the next.
 */
function withWhatItNeeds(body: string, shared: string): string {
  const definitions = shared.split(/^(?=local )/m);
  return definitions.reduceRight((rest, definition) => {
    const names = definition.match(/^local (?:function )?(\w+(?:, \w+)*)/)?.[1]?.split(', ') ?? [];
    return names.some((name) => new RegExp(`\\b${name}\\b`).test(rest)) ? definition + rest : rest;
  }, body);
}
