/**
 * mocha's `spec` reporter, followed by what was left out and why, and the ten slowest files. It writes the counts, and which tests failed or were skipped, as
 * JSON to the file named by TEST_COUNTS (see .ci/sum.mjs).
 */
const { readFileSync, writeFileSync } = require('node:fs');
const { relative } = require('node:path');
const { reporters } = require('mocha');
const reasons = require('./skips.json');

module.exports = class extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    const skipped = [];
    const failures = [];
    const msByFile = new Map();
    const add = ({ file, duration = 0 }) => {
      if (file?.endsWith('.test.ts')) msByFile.set(file, (msByFile.get(file) ?? 0) + duration);
    };
    runner.on('pending', (test) => skipped.push(test.fullTitle()));
    runner.on('fail', (test, { message }) => failures.push({ title: test.fullTitle(), why: String(message) }));
    runner.on('test end', add);
    runner.on('hook end', add);
    runner.once('end', () => {
      const isOfFamilies = (file) => readFileSync(file, 'utf8').includes('/families.js');
      if (process.env.FAMILIES !== 'whole' && [...msByFile.keys()].some(isOfFamilies))
        console.log('  of large families of tests a sample was tried: FAMILIES=whole tries all');
      for (const { tests, reason } of reasons)
        if (skipped.some((title) => title.startsWith(tests))) console.log(`  skipped: ${reason}`);
      const slowest = [...msByFile].sort(([, a], [, b]) => b - a).slice(0, 10);
      for (const [file, ms] of slowest) console.log(`${(ms / 1000).toFixed(1).padStart(7)} s  ${relative('', file)}`);
      const { passes, failures: failed } = this.stats;
      const { TEST_COUNTS: counts } = process.env;
      if (counts) writeFileSync(counts, JSON.stringify({ passed: passes, failed, failures, skipped }));
    });
  }
};
