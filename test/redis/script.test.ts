import assert from 'node:assert/strict';
import { clientScript } from '../../src/redis/connection/script.js';

describe('A script of one client', () => {
  const prelude = `
local A, B = 1, 2
local function twice(n) return n * A * 2 end
-- What nobody asks for.
local function thrice(n)
  local three = 3
  return n * three
end
local function again(n)
  return twice(twice(n))
end
`;

  it('holds what it names of its prelude and what that names, in the same order, and nothing else', () => {
    const { source } = clientScript('return again(2)', prelude);
    const at = ['local A, B', 'local function twice', 'local function again', 'return again(2)'].map((part) =>
      source.indexOf(part),
    );
    assert.ok(at.every((place, i) => place > (at[i - 1] ?? 0)));
    assert.doesNotMatch(source, /thrice|three/);
    assert.doesNotMatch(clientScript('return 1', prelude).source, /local A|function/);
  });

  it('finds a definition by its whole name only', () => {
    assert.doesNotMatch(clientScript('return again_and_again', prelude).source, /function/);
  });
});
