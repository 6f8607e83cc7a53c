/** Clients with a key that the sweep could not read, or whose keys contradict each other, until a later check finds them in order. */
import type { Db } from '../connection/db.js';

/** @returns whether it is new */
export async function keepBroken(db: Db, clientToken: string): Promise<boolean> {
  return (await db.redis.sadd(db.global.brokenClients, clientToken)) === 1;
}

export async function dropBroken(db: Db, clientToken: string): Promise<void> {
  await db.redis.srem(db.global.brokenClients, clientToken);
}

/** Returns at most `count` of them, drawn at random. */
export async function someBroken(db: Db, count: number): Promise<string[]> {
  return await db.redis.srandmember(db.global.brokenClients, count);
}

export async function countBroken(db: Db): Promise<number> {
  return await db.redis.scard(db.global.brokenClients);
}
