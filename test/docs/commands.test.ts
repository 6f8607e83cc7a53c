/** The commands in docs/reference are those of the program. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { createProgram } from '../../src/operator/program.js';

const docs = join(import.meta.dirname, '../../docs');
const page = readFileSync(join(docs, 'reference/commands.md'), 'utf8');
const program = createProgram(() => {
  throw new Error('runs nothing');
});

it('docs/reference/commands.md has each command and its options, and no other', () => {
  const [, table = ''] = page.split('## All commands\n');
  const rows = [...table.matchAll(/^\| `([^`]+)` \| .* \| ?(.*) \|$/gm)].map(
    ([, command = '', options = '']) => [wordsOf(command), (options.match(/--[a-z-]+/g) ?? []).toSorted()],
  );
  assert.deepEqual(rows.toSorted(), commandsOf(program).toSorted());
});

it('every command of an operator that a page names is one of them, with its options', () => {
  const everywhere = ['--help', ...program.options.map(({ long }) => long ?? '')];
  const pages = readdirSync(docs, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.md'),
  );
  const named = pages.flatMap((name) =>
    [
      ...readFileSync(join(docs, name), 'utf8').matchAll(
        /(?:`operator|operator --|operator\/main\.js) (\w[^`\n#|]*)/g,
      ),
    ].map(([, words = '']) => ({ name, words })),
  );
  assert.ok(named.length > 40);
  for (const { name, words } of named.filter((one) => !one.words.startsWith('COMMAND'))) {
    const found = commandsOf(program).find(([command]) =>
      `${words} `.replaceAll('\n', ' ').startsWith(`${command} `),
    );
    assert.ok(found, `${name}: ${words}`);
    for (const option of words.match(/--[a-z][a-z-]+/g) ?? [])
      assert.ok([...everywhere, ...found[1]].includes(option), `${name}: ${words}: ${option}`);
  }
});

function commandsOf(parent: Command, before = ''): [string, string[]][] {
  return parent.commands.flatMap((command) => {
    const name = `${before}${command.name()}`;
    if (command.commands.length > 0) return commandsOf(command, `${name} `);
    return [[name, command.options.map(({ long }) => long ?? '').toSorted()]];
  });
}

/** `client set <token>` without the arguments. */
function wordsOf(command: string): string {
  return command.replace(/ [<[].*$/, '');
}
