import type { Db } from '../src/redis/connection/db.js';

export async function keysMatching({ nodes }: Db, pattern: string): Promise<string[]> {
  return (await Promise.all(nodes.primaries().map((server) => server.keys(pattern)))).flat();
}
