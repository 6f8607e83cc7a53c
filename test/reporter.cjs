/**
 * mocha's `spec` reporter; also writes the counts, and which tests were skipped, as JSON to the file named by TEST_COUNTS
 * (see .ci/sum.mjs).
 */
const { writeFileSync } = require('node:fs');
const { reporters } = require('mocha');

module.exports = class extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    const file = process.env.TEST_COUNTS;
    if (!file) return;
    const skipped = [];
    runner.on('pending', (test) => skipped.push(test.fullTitle()));
    runner.once('end', () => {
      const { passes, failures } = this.stats;
      writeFileSync(file, JSON.stringify({ passed: passes, failed: failures, skipped }));
    });
  }
};
