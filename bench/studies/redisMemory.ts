import type { Db } from '../../src/redis/connection/db.js';

/** Returns `used_memory` without the buffers of connections and of the log, bytes. */
export async function usedMemory(db: Db): Promise<number> {
  const info = await db.redis.info('memory');
  const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  return field('used_memory') - field('mem_clients_normal') - field('mem_aof_buffer');
}

/** Returns the memory of one key with all its elements, bytes; 0 if it does not exist. */
export async function keyMemory(db: Db, key: string): Promise<number> {
  return Number((await db.redis.memory('USAGE', key, 'SAMPLES', 0)) ?? 0);
}

/** Returns the number of keys that match and their memory by MEMORY USAGE, bytes. */
export async function keysMemory(db: Db, pattern: string): Promise<{ bytes: number; keys: number }> {
  const sum = { bytes: 0, keys: 0 };
  let cursor = '0';
  do {
    const [next, keys] = await db.redis.scan(cursor, 'MATCH', pattern, 'COUNT', 2000);
    cursor = next;
    const pipeline = db.redis.pipeline();
    for (const key of keys) pipeline.memory('USAGE', key, 'SAMPLES', 0);
    for (const [err, bytes] of (await pipeline.exec()) ?? []) {
      if (err) throw err;
      sum.bytes += Number(bytes ?? 0);
      sum.keys++;
    }
  } while (cursor !== '0');
  return sum;
}
