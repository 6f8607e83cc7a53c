import type { Db } from '../connection/db.js';
import { recordKeptMs } from '../connection/keys.js';

/** Keeps an event's traceparent for catch-up's attempts. Called only if tracing is on. @throws errors of Redis */
export async function keepTrace(
  db: Db,
  clientToken: string,
  notificationId: string,
  trace: string,
): Promise<void> {
  await db.redis.set(db.client(clientToken).trace(notificationId), trace, 'EX', recordKeptMs / 1000);
}

/** Reads the kept traceparents of notifications of one client, by notification id. @throws errors of Redis */
export async function readTraces(
  db: Db,
  clientToken: string,
  notificationIds: readonly string[],
): Promise<Map<string, string>> {
  if (notificationIds.length === 0) return new Map();
  const keys = db.client(clientToken);
  const found = await db.redis.mget(notificationIds.map((id) => keys.trace(id)));
  return new Map(
    notificationIds.flatMap((id, i): [string, string][] => {
      const trace = found[i];
      return typeof trace === 'string' ? [[id, trace]] : [];
    }),
  );
}
