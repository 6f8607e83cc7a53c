import type { AsyncLocalStorage } from 'node:async_hooks';

const known = new WeakSet<object>();

/**
 * Disables a storage of Temporal's SDK whenever nothing runs in it. Before Node 24 one that was used once makes each later promise of the
 * process dearer (docs/benchmarks/decisions.md); it is enabled again by its next use.
 */
export function disableWhenUnused<Store>(storage: AsyncLocalStorage<Store>): void {
  if (known.has(storage)) return;
  known.add(storage);
  const run = storage.run.bind(storage);
  let underWay = 0;
  const end = () => {
    underWay--;
    if (underWay === 0) storage.disable();
  };
  storage.run = <R, Args extends unknown[]>(store: Store, work: (...args: Args) => R, ...args: Args): R => {
    underWay++;
    let result: R | undefined;
    try {
      result = run(store, work, ...args);
      return result;
    } finally {
      if (result instanceof Promise) result.then(end, end);
      else end();
    }
  };
}
