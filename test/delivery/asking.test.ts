import assert from 'node:assert/strict';
import { mock } from 'node:test';
import { Asking, takenAtOnce } from '../../src/delivery/asking.js';

describe('How often a client asks for places', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
  afterEach(() => mock.timers.reset());

  const minuteMs = 60_000;

  /** What it asks for in a minute in which every place is refused. @returns when (ms), and for how many */
  function askForAMinute(isLive: boolean): { at: number; most: number }[] {
    const asked: { at: number; most: number }[] = [];
    let at = 0;
    const ask = () => {
      const most = asking.most(0);
      asked.push({ at, most });
      asking.full(false, () => isLive);
      asking.answered(most, most);
    };
    const asking = new Asking(ask);
    ask();
    for (; at < minuteMs; at++) mock.timers.tick(1);
    return asked;
  }

  it('while others hold them: after pauses that grow to 10 s, for one place each', () => {
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
    assert.equal(pauses.at(-1), 10_000);
  });

  it('while a live event waits for them: once a second, no less', () => {
    const asked = askForAMinute(true);
    assert.ok(asked.length >= 60 && asked.length <= 66, `${asked.length} times`);
  });

  it('a live event that comes shortens a long pause', () => {
    let over = 0;
    const asking = new Asking(() => over++);
    asking.rate(4000, () => false);
    asking.liveCame();
    mock.timers.tick(1000);
    assert.equal(over, 1);
    mock.timers.tick(10_000);
    assert.equal(over, 1);
  });

  it('an attempt of this process that ends asks for its own place and one more, at once', () => {
    const asking = new Asking(() => undefined);
    asking.full(false, () => false);
    assert.equal(asking.most(0), 0);
    asking.attemptEnded();
    assert.equal(asking.most(1), 2);
  });

  it('who comes when nothing waits any more asks at once, whatever was full before', () => {
    const asking = new Asking(() => undefined);
    asking.full(true, () => false);
    assert.equal(asking.isAllowed, false);
    asking.attemptEnded();
    asking.answered(0, 0);
    assert.equal(asking.isAllowed, true);
  });

  it('a rate is asked for what it gave last and one more, and for more while it gives all', () => {
    const asking = new Asking(() => undefined);
    assert.equal(asking.most(0), takenAtOnce);
    asking.rate(1000, () => false);
    asking.answered(takenAtOnce, takenAtOnce - 5);
    mock.timers.tick(1000);
    assert.equal(asking.most(0), 6);
    asking.answered(6, 0);
    assert.equal(asking.most(0), 12);
  });
});
