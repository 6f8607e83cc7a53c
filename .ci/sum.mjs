/**
 * `node .ci/sum.mjs <skips.json> <counts>...`: adds up what test/reporter.cjs wrote of each run, and names once more what
 * failed. A skipped test is a failure unless skips.json names it, by its title or by how its title begins, and what it says
 * to be missing is missing here. A run without a count (a crash before its end, a failed build) or without a test is one,
 * too. The last line is the sum.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const [skipsFile = '', ...countFiles] = process.argv.slice(2);
const named = JSON.parse(readFileSync(skipsFile, 'utf8'));
const runs = countFiles.map(read);

const passed = sum(({ passed }) => passed);
const empty = runs.filter(({ passed, skipped }) => passed + skipped.length === 0).length;
const skips = runs.flatMap(({ skipped }) => skipped).map(judge);
const failed = sum(({ failed }) => failed) + skips.filter(({ isFailure }) => isFailure).length;

for (const { title, why } of skips) console.log(`skipped: ${title}\n         ${why}`);
for (const { title, why } of runs.flatMap(({ failures }) => failures))
  console.log(`failed: ${title}\n        ${why}`);
if (empty > 0) console.log(`runs without a test or a count: ${empty}`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || empty > 0 ? 1 : 0;

function read(file) {
  return {
    passed: 0,
    failed: 0,
    failures: [],
    skipped: [],
    ...JSON.parse(readFileSync(file, 'utf8') || '{}'),
  };
}

function judge(title) {
  const found = named.find(({ tests }) => title.startsWith(tests));
  if (found === undefined) return { title, isFailure: true, why: `a failure: ${skipsFile} does not name it` };
  const { without, reason } = found;
  if (isThere(without)) return { title, isFailure: true, why: `a failure: ${without.join(' ')} works here` };
  return { title, isFailure: false, why: reason };
}

function isThere([command, ...args]) {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

function sum(of) {
  return runs.reduce((total, run) => total + of(run), 0);
}
