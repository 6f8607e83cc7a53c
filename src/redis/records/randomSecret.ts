import { randomFillSync } from 'node:crypto';

const secretBytes = 32;
/** The generator takes as long for 64 secrets as for one. */
const pool = Buffer.alloc(64 * secretBytes);
let used = pool.length;

/** 256 random bits, base64url. No byte is used twice, and none stays in memory here. */
export function randomSecret(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const secret = pool.toString('base64url', used, used + secretBytes);
  pool.fill(0, used, used + secretBytes);
  used += secretBytes;
  return secret;
}
