import assert from 'node:assert/strict';
import { compose } from '../../src/redis/connection/script.js';

describe('A script', () => {
  const parts: Record<string, string> = {
    numbers: `
-- Holds what the others need.
local A, B = 1, 2
`,
    twice: `
-- include: numbers
local function twice(n) return n * A * 2 end
-- Is named in a comment alone: again.
local function thrice(n)
  local three = 3
  return n * three
end
`,
    again: `
-- include: numbers, twice
local function again(n)
  return twice(twice(n))
end
`,
  };
  const composed = (body: string) => compose(body, (name) => parts[name] ?? assert.fail(name));

  it('contains only the definitions of its parts that it names, and those that they name, each once', () => {
    assert.equal(
      composed('-- include: again, twice\nreturn again(2)\n'),
      [
        'local A, B = 1, 2',
        'local function twice(n) return n * A * 2 end',
        'local function again(n)',
        'return twice(twice(n))',
        'end',
        'return again(2)\n',
      ].join('\n'),
    );
    assert.equal(composed('-- include: again\n\n-- Not again.\nreturn 1\n'), 'return 1\n');
  });

  it('finds a definition by its whole name only', () => {
    assert.equal(composed('-- include: again\nreturn again_and_again\n'), 'return again_and_again\n');
  });
});
