import assert from 'node:assert/strict';
import { mock } from 'node:test';
import { maxTakesPerTurn, TakePace } from '../../src/delivery/takePace.js';

describe('How often a client asks for places', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
  afterEach(() => mock.timers.reset());

  const minuteMs = 60_000;
  const backlog = { hasLive: () => false };

  /** What it asks for in a minute in which every place is refused. @returns when (ms), and for how many */
  function askForAMinute(isLive: boolean): { at: number; most: number }[] {
    const asked: { at: number; most: number }[] = [];
    let at = 0;
    const ask = () => {
      const most = pace.maxTakes(0);
      asked.push({ at, most });
      pace.waitForPlace(false);
      pace.noteAnswer(most, most);
    };
    const pace = new TakePace({ hasLive: () => isLive }, ask);
    ask();
    for (; at < minuteMs; at++) mock.timers.tick(1);
    return asked;
  }

  it('while others hold them: after pauses that grow to 20 s, for one place each', () => {
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

  it('while a live event waits for them: once a second, no less', () => {
    const asked = askForAMinute(true);
    assert.ok(asked.length >= 60 && asked.length <= 66, `${asked.length} times`);
  });

  it('a live event that comes shortens a long pause', () => {
    let over = 0;
    const pace = new TakePace(backlog, () => over++);
    pace.waitForRate(4000);
    pace.noteLiveEvent();
    mock.timers.tick(1000);
    assert.equal(over, 1);
    mock.timers.tick(20_000);
    assert.equal(over, 1);
  });

  it('an attempt of this process that ends asks for its own place and one more, at once', () => {
    const pace = new TakePace(backlog, () => undefined);
    pace.waitForPlace(false);
    assert.equal(pace.maxTakes(0), 0);
    pace.noteAttemptEnd();
    assert.equal(pace.maxTakes(1), 2);
  });

  it('who comes when nothing waits any more asks at once, whatever was full before', () => {
    const pace = new TakePace(backlog, () => undefined);
    pace.waitForPlace(true);
    assert.equal(pace.mayTake, false);
    pace.noteAttemptEnd();
    pace.noteAnswer(0, 0);
    assert.equal(pace.mayTake, true);
  });

  it('a rate is asked for what it gave last and one more, and for more while it gives all', () => {
    const pace = new TakePace(backlog, () => undefined);
    assert.equal(pace.maxTakes(0), maxTakesPerTurn);
    pace.waitForRate(1000);
    pace.noteAnswer(maxTakesPerTurn, maxTakesPerTurn - 5);
    mock.timers.tick(1000);
    assert.equal(pace.maxTakes(0), 6);
    pace.noteAnswer(6, 0);
    assert.equal(pace.maxTakes(0), 12);
  });
});
