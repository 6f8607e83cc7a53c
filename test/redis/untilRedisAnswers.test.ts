import assert from 'node:assert/strict';
import { RedisUnavailable } from '../../src/redis/connection/unavailable.js';
import { untilRedisAnswers } from '../../src/redis/connection/untilRedisAnswers.js';

describe('A question to Redis is repeated while Redis does not answer', () => {
  const real = { date: Date.now, performance: performance.now };
  let passedMs = 0;

  beforeEach(() => {
    passedMs = 0;
    performance.now = () => real.performance.call(performance) + passedMs;
  });
  afterEach(() => {
    Date.now = real.date;
    performance.now = real.performance;
  });

  it('for some seconds, also if the clock of the machine is set back meanwhile', async () => {
    let backMs = 0;
    Date.now = () => real.date() - backMs;
    let asked = 0;
    const away = untilRedisAnswers(() => {
      asked++;
      passedMs += 600;
      backMs += 3_600_000;
      return Promise.reject(new RedisUnavailable('away'));
    });
    await assert.rejects(away, RedisUnavailable);
    assert.ok(asked >= 4 && asked <= 9, `asked ${asked} times`);
  });

  it('with pauses of half a second at most', async () => {
    const askedAt: number[] = [];
    const answer = await untilRedisAnswers(() => {
      askedAt.push(real.performance.call(performance));
      return askedAt.length < 7 ? Promise.reject(new RedisUnavailable('away')) : Promise.resolve('here');
    });
    assert.equal(answer, 'here');
    const pauses = askedAt.slice(1).map((at, i) => at - (askedAt[i] as number));
    assert.ok(Math.max(...pauses) < 1000, `paused for ${pauses.map(Math.round)} ms`);
  });
});
