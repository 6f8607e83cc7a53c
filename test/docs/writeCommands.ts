/** Writes the table of docs/reference/commands.md: `npx tsx test/docs/writeCommands.ts`. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandTable } from './commands.js';
import { readPage, root } from './tables.js';

const path = 'docs/reference/commands.md';
const page = readPage(path);
const [above = ''] = page.split('## All commands\n');
writeFileSync(join(root, path), `${above}## All commands\n\n${commandTable()}\n`);
