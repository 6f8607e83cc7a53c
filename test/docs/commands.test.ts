import assert from 'node:assert/strict';
import { commandRows } from './commands.js';
import { readPage, rowsOf, section } from './tables.js';

describe('docs/reference/commands.md', () => {
  it('has a row for each command with its arguments and options (npx tsx test/docs/writeCommands.ts writes it)', () => {
    const rows = rowsOf(section(readPage('docs/reference/commands.md'), 'All commands'));
    assert.deepEqual(rows, commandRows());
  });
});
