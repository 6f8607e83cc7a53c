/** The tests of `npm run test:unit`, computed from imports, so that no file must be named and none is forgotten. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { otherTests, unitTests } from './unitTests.mjs';

/** Raise it when files are added. One import of test/servers.ts in a shared file would take many files out of the lane. */
const fewest = 25;

describe('npm run test:unit', () => {
  it('runs every test file whose imports do not lead to the servers of the run', () => {
    assert.ok(unitTests.length >= fewest, `only ${unitTests.length}: ${unitTests.join(', ')}`);
    assert.ok(unitTests.includes('test/unit.test.ts'));
  });

  it('runs no test file that uses the servers of the run, not even through another file', () => {
    const withServers = [
      'test/local/servers.test.ts',
      'test/redis/retries.test.ts',
      'test/operator/usage.test.ts',
    ];
    for (const file of withServers) {
      assert.ok(existsSync(join(import.meta.dirname, '..', file)), file);
      assert.ok(!unitTests.includes(file), file);
    }
  });

  it('leaves out by name only tests that exist', () => {
    for (const file of Object.keys(otherTests)) {
      assert.ok(existsSync(join(import.meta.dirname, '..', file)), file);
    }
  });
});
