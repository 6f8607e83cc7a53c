import type { Lookup, Names } from '../../src/outgoing/names.js';

/** Names by a test's own lookup, whose resolver is never to blame. */
export function namesBy(lookup: Lookup): Names {
  return {
    lookup,
    takePermit: (_name, onPermit) => onPermit(() => undefined),
    isSilentFor: async () => false,
  };
}

/** Every name is 127.0.0.1. */
export const loopbackNames = namesBy(async () => [{ address: '127.0.0.1', family: 4 }]);
