/** Sentences are for people: with others in their place everything is decided as before. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import * as errors from '../src/http/errors.js';
import * as unavailable from '../src/redis/connection/unavailable.js';

const built = pathToFileURL(join(import.meta.dirname, '../dist/src/'));

/** Loads a built module of `src` again, whose texts with a blank are all the same sentence. */
async function reworded<Module>(path: string): Promise<Module> {
  const from = new URL(path, built);
  const folder = await mkdtemp(join(tmpdir(), 'reworded-'));
  const source = readFileSync(from, 'utf8')
    .replaceAll(/(^ *|[:,=] |\[)(['"`])(?=[A-Z])(?:(?!\2).)* (?:(?!\2).)*\2/gm, '$1"Other words."')
    .replaceAll(/from '(\.[^']*)'/g, (_, name) => `from '${new URL(name, from)}'`);
  assert.ok(source.split('"Other words."').length > 30, `sentences of ${path} were replaced`);
  const copy = join(folder, 'copy.mjs');
  await writeFile(copy, source);
  const loaded = (await import(pathToFileURL(copy).href)) as Module;
  await rm(folder, { recursive: true });
  return loaded;
}

describe('A sentence decides nothing', () => {
  it('of the catalogue of errors: who gets a code, its status, and its word under /oauth', async () => {
    const other = await reworded<typeof errors>('http/errors.js');
    const decided = ({ errors: rows, callersCodes, errorCodes, toOauthError }: typeof errors) => ({
      callersCodes,
      all: errorCodes.map((code) => [code, rows[code].status, toOauthError(code)]),
    });
    assert.equal(other.errors.insufficient_role.meaning, 'Other words.');
    assert.deepEqual(decided(other), decided(errors));
  });

  it('of the reasons of Redis: what they are of, and whether they last', async () => {
    const other = await reworded<typeof unavailable>('redis/connection/unavailable.js');
    const decided = ({ redisReasons, isOfCommand, isLasting, explainRefusals }: typeof unavailable) =>
      redisReasons.map((reason) => {
        const [{ commands, lasts } = {}] = explainRefusals([{ reason, command: 'GET' }]);
        return {
          reason,
          isOfCommand: isOfCommand(reason),
          isLasting: isLasting({ reason }),
          commands,
          lasts,
        };
      });
    assert.equal(other.explainRefusals([{ reason: 'right', command: 'GET' }])[0]?.says, 'Other words.');
    assert.deepEqual(decided(other), decided(unavailable));
  });
});
