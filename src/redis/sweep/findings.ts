/** The sweep's findings, each kept until it is in order again, and the clients that the sweep reads next. */
import type { Db } from '../connection/db.js';

export interface Finding {
  clientToken: string;
  notificationId: string;
  platformId?: string;
  problem: string;
}

/** More findings would add no information. */
const findingsAtMost = 1000;

const fieldOf = ({ clientToken, notificationId }: Finding): string => `${clientToken} ${notificationId}`;

export async function findings(db: Db): Promise<Finding[]> {
  const kept = await db.redis.hvals(db.global.unaccounted);
  return kept.map((json) => JSON.parse(json) as Finding);
}

/** @returns whether it is new */
export async function keepFinding(db: Db, finding: Finding): Promise<boolean> {
  if ((await db.redis.hlen(db.global.unaccounted)) >= findingsAtMost) return false;
  return (await db.redis.hset(db.global.unaccounted, fieldOf(finding), JSON.stringify(finding))) === 1;
}

export async function dropFinding(db: Db, finding: Finding): Promise<void> {
  await db.redis.hdel(db.global.unaccounted, fieldOf(finding));
}

/** The value of the metric. */
export async function unaccountedNow(db: Db): Promise<number> {
  return await db.redis.hlen(db.global.unaccounted);
}

/** Returns some clients, different ones each time, until all had their turn. */
export async function nextClients(db: Db, count: number): Promise<string[]> {
  const cursor = (await db.redis.get(db.global.accountingCursor)) ?? '0';
  const [next, clientTokens] = await db.redis.sscan(db.global.clients, cursor, 'COUNT', count);
  await db.redis.set(db.global.accountingCursor, next);
  return clientTokens;
}
