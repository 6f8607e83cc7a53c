import assert from 'node:assert/strict';
import { downTurnsMs, isDownTurn } from '../../bench/turns.js';

describe('the benchmark’s turns with an endpoint down and without', () => {
  it('go with, without, without, with; the warm-up too', () => {
    const at = [-1000, 0, 999, 1000, 2000, 3000, 4000, 5000];
    assert.deepEqual(at.map(isDownTurn), [true, true, true, false, false, true, true, false]);
  });

  it('have half of a window, or what it has of them', () => {
    assert.deepEqual([8000, 10_000, 60_000, 3500, 500].map(downTurnsMs), [4000, 5000, 30_000, 1500, 500]);
  });
});
