import assert from 'node:assert/strict';
import { mock } from 'node:test';
import { maxTakesPerTurn, TakePace } from '../../src/delivery/takePace.js';

describe('A client’s questions for places', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
  afterEach(() => mock.timers.reset());

  const minuteMs = 60_000;
  const backlog = { hasLive: () => false };

  /** Records its questions in a minute in which every place is refused. @returns when (ms), and for how many */
  function askForAMinute(isLive: boolean): { at: number; most: number }[] {
    const asked: { at: number; most: number }[] = [];
    let at = 0;
    const ask = () => {
      const most = pace.maxTakes(0, 0);
      asked.push({ at, most });
      pace.waitForPlace(false);
      pace.noteAnswer(most, most);
    };
    const pace = new TakePace({ hasLive: () => isLive }, ask);
    ask();
    for (; at < minuteMs; at++) mock.timers.tick(1);
    return asked;
  }

  it('come after pauses that grow to 20 s, for one place each, while others hold all places', () => {
    const asked = askForAMinute(false);
    assert.ok(asked.length <= 15, `${asked.length} times`);
    assert.deepEqual(
      asked.slice(1).filter(({ most }) => most > 1),
      [],
    );
    const pauses = asked.slice(1).map(({ at }, i) => at - (asked[i]?.at ?? 0));
    assert.deepEqual(
      [...pauses].sort((a, b) => a - b),
      pauses,
    );
    assert.equal(pauses.at(-1), 20_000);
  });

  it('come at least once a second while a live event waits', () => {
    const asked = askForAMinute(true);
    assert.ok(asked.length >= 60 && asked.length <= 66, `${asked.length} times`);
  });

  it('come sooner when a live event arrives during a long pause', () => {
    let over = 0;
    const pace = new TakePace(backlog, () => over++);
    pace.waitForRate(4000);
    pace.noteLiveEvent();
    mock.timers.tick(1000);
    assert.equal(over, 1);
    mock.timers.tick(20_000);
    assert.equal(over, 1);
  });

  it('come immediately when an attempt of this process ends, for its place and one more', () => {
    const pace = new TakePace(backlog, () => undefined);
    pace.waitForPlace(false);
    assert.equal(pace.maxTakes(0, 0), 0);
    pace.noteAttemptEnd(true);
    assert.equal(pace.maxTakes(1, 0), 2);
  });

  it('come immediately for work that arrives when nothing waits, even if all places were taken before', () => {
    const pace = new TakePace(backlog, () => undefined);
    pace.waitForPlace(true);
    assert.equal(pace.mayTake(1), false);
    pace.noteAttemptEnd(true);
    pace.noteAnswer(0, 0);
    assert.equal(pace.mayTake(0), true);
  });

  it('ask a rate for one place more than it gave last, and for more while it gives all', () => {
    const pace = new TakePace(backlog, () => undefined);
    assert.equal(pace.maxTakes(0, 0), maxTakesPerTurn);
    pace.waitForRate(1000);
    pace.noteAnswer(maxTakesPerTurn, maxTakesPerTurn - 5);
    mock.timers.tick(1000);
    assert.equal(pace.maxTakes(0, 5), 6);
    pace.noteAnswer(6, 0);
    assert.equal(pace.maxTakes(0, 6), 12);
  });

  it('pause after own failures, for up to 20 s, whatever arrives; then come one at a time until a POST was made', () => {
    let over = 0;
    const pace = new TakePace({ hasLive: () => true }, () => over++);
    for (const ms of [1000, 2000, 4000, 8000, 16_000, 20_000, 20_000]) {
      over = 0;
      pace.noteAttemptEnd(false);
      assert.deepEqual(pace.backOff(), { inMs: ms, isNew: true });
      assert.equal(pace.backOff().isNew, false);
      pace.noteLiveEvent();
      mock.timers.tick(ms - 1);
      assert.deepEqual([over, pace.mayTake(0), pace.maxTakes(1, 0)], [0, false, 0]);
      mock.timers.tick(1);
      assert.equal(over, 1);
      assert.deepEqual([pace.maxTakes(0, 0), pace.maxTakes(0, 1), pace.mayTake(1)], [1, 0, false]);
    }
    pace.noteAttemptEnd(true);
    assert.equal(pace.maxTakes(0, 0), maxTakesPerTurn);
    assert.equal(pace.backOff().inMs, 1000);
  });
});
