/** mocha's `spec` reporter; also writes the counts as JSON to the file named by TEST_COUNTS (see .ci/run). */
const { writeFileSync } = require('node:fs');
const { reporters } = require('mocha');

module.exports = class extends reporters.Spec {
  constructor(runner, options) {
    super(runner, options);
    const file = process.env.TEST_COUNTS;
    if (!file) return;
    runner.once('end', () => {
      const { passes, failures, pending } = this.stats;
      writeFileSync(file, JSON.stringify({ passed: passes, failed: failures, skipped: pending }));
    });
  }
};
