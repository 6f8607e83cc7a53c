import assert from 'node:assert/strict';
import { shareReads } from '../../src/redis/connection/shareReads.js';

describe('a shared read', () => {
  let begun: { key: string; answer(value: string): void; fail(err: Error): void }[];
  const newReader = () => {
    begun = [];
    return shareReads(
      (key: string) => new Promise<string>((answer, fail) => begun.push({ key, answer, fail })),
    );
  };
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  it('begins after the call of everyone whom it answers', async () => {
    const read = newReader();
    const first = read('a');
    const second = read('a');
    const third = read('a');
    assert.equal(begun.length, 1);
    begun[0]?.answer('before');
    assert.equal(await first, 'before');
    await turn();
    assert.equal(begun.length, 2);
    const fourth = read('a');
    begun[1]?.answer('after');
    assert.deepEqual(await Promise.all([second, third]), ['after', 'after']);
    await turn();
    assert.equal(begun.length, 3);
    begun[2]?.answer('last');
    assert.equal(await fourth, 'last');
    await turn();
    void read('a');
    assert.equal(begun.length, 4, 'nothing is kept once all are answered');
  });

  it('is not shared with callers who ask for something else', async () => {
    const read = newReader();
    const both = [read('a'), read('b')];
    begun[1]?.answer('of b');
    begun[0]?.answer('of a');
    assert.deepEqual(await Promise.all(both), ['of a', 'of b']);
  });

  it('fails only for its own callers', async () => {
    const read = newReader();
    const first = read('a');
    const second = read('a');
    begun[0]?.fail(new Error('away'));
    await assert.rejects(first, /away/);
    await turn();
    begun[1]?.answer('back');
    assert.equal(await second, 'back');
  });
});
