import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { EventEmitter, once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { disableWhenUnused } from '../../src/temporal/contexts.js';

describe('A storage of contexts that is disabled when unused', () => {
  it('keeps each context until its work ends, however it ends, and is then disabled', async () => {
    const storage = new AsyncLocalStorage<string>();
    let disabled = 0;
    const { disable } = storage;
    storage.disable = () => {
      disabled++;
      disable.call(storage);
    };
    // Twice is once.
    for (let i = 0; i < 2; i++) disableWhenUnused(storage);
    const gate = new EventEmitter();
    const work = async (name: string, nested?: string): Promise<string | undefined> => {
      if (nested !== undefined)
        assert.equal(await storage.run(nested, async () => storage.getStore()), nested);
      const [err] = await once(gate, name);
      if (err) throw err;
      return storage.getStore();
    };
    const run = (name: string, nested?: string) => storage.run(name, work, name, nested);
    for (const round of [1, 2]) {
      const [first, second] = [run('first', 'within'), run('second')];
      await turn();
      gate.emit('first');
      assert.equal(await first, 'first');
      assert.equal(disabled, round - 1, 'another is under way');
      gate.emit('second', new Error('broken'));
      await assert.rejects(second, /broken/);
      assert.equal(disabled, round);
      assert.equal(storage.getStore(), undefined);
    }
    assert.throws(() => storage.run('now', () => assert.fail('thrown')), /thrown/);
    assert.equal(
      storage.run('now', () => storage.getStore()),
      'now',
    );
    assert.equal(disabled, 4);
  });
});
