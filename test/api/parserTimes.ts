/** Prints the table of docs/bad-input.md: `npx tsx test/api/parserTimes.ts`. */
import { parserCases, parserTimeMs } from './parserCases.js';

const shares = [1 / 16, 1 / 4, 1];
console.log('| parser | most expensive input | 1/16 | 1/4 | the full cap | cap |\n|---|---|---|---|---|---|');
for (const one of parserCases) {
  const times: string[] = [];
  for (const share of shares) times.push((await parserTimeMs(one, one.bytesAtMost * share)).toFixed(2));
  const cap = one.bytesAtMost / 1024;
  console.log(`| ${[one.parser, one.input, ...times, cap < 1024 ? `${cap} KiB` : '1 MiB'].join(' | ')} |`);
}
