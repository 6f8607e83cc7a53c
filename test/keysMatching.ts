import type { Db } from '../src/redis/connection/db.js';

/** The keys that match a pattern, on every node where there are several. */
export async function keysMatching({ nodes }: Db, pattern: string): Promise<string[]> {
  return (await Promise.all(nodes.primaries().map((server) => server.keys(pattern)))).flat();
}
