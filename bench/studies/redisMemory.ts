import type { Db } from '../../src/redis/connection/db.js';

/** `used_memory` without what connections and the log's buffer hold at the moment, bytes. */
export async function usedMemory(db: Db): Promise<number> {
  const info = await db.redis.info('memory');
  const field = (name: string) => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  return field('used_memory') - field('mem_clients_normal') - field('mem_aof_buffer');
}

/** Memory of one key with all its elements, bytes; 0 where there is none. */
export async function keyMemory(db: Db, key: string): Promise<number> {
  return Number((await db.redis.memory('USAGE', key, 'SAMPLES', 0)) ?? 0);
}

/** Of all keys that match, as Redis counts them: bytes and how many they are. */
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
