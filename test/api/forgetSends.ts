import type { Db } from '../../src/redis/connection/db.js';

/** Forgets the calls of a client that sent something: the next five are within its limit. */
export async function forgetSends(db: Db, clientToken: string): Promise<void> {
  await db.redis.del(db.client(clientToken).sendLimit);
}
