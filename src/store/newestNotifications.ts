import type { Db } from './db.js';
import { getNotification, type NotificationRecord } from './notifications.js';
import { runPipeline } from './pipeline.js';

const pageSize = 500;

interface Listed {
  at: number;
  clientToken: string;
  /** A notification's id, or of what waits, the asset. */
  member: string;
}

/** The newest of many clients, newest first: only those are read that are shown. `since`: ms. */
export async function newestNotifications(
  db: Db,
  clientTokens: readonly string[],
  options: { waitingOnly: boolean; since?: number; limit: number },
): Promise<NotificationRecord[]> {
  let newest: Listed[] = [];
  for (let start = 0; start < clientTokens.length; start += pageSize) {
    const page = clientTokens.slice(start, start + pageSize);
    const commands = db.redis.pipeline();
    for (const clientToken of page) {
      const keys = db.client(clientToken);
      const log = options.waitingOnly ? keys.owedSince : keys.notifications;
      commands.zrevrangebyscore(
        log,
        '+inf',
        options.since ?? '-inf',
        'WITHSCORES',
        'LIMIT',
        0,
        options.limit,
      );
    }
    const answers = (await runPipeline(commands)) as string[][];
    newest.push(...answers.flatMap((flat, i) => listedOf(page[i] ?? '', flat)));
    newest = newest.sort((a, b) => b.at - a.at).slice(0, options.limit);
  }
  const records = await Promise.all(newest.map((listed) => read(db, listed, options.waitingOnly)));
  return records.filter((record) => record !== undefined);
}

function listedOf(clientToken: string, flat: string[]): Listed[] {
  const listed: Listed[] = [];
  for (let i = 0; i + 1 < flat.length; i += 2) {
    listed.push({ clientToken, member: flat[i] ?? '', at: Number(flat[i + 1]) });
  }
  return listed;
}

async function read(
  db: Db,
  { clientToken, member }: Listed,
  waitingOnly: boolean,
): Promise<NotificationRecord | undefined> {
  const id = waitingOnly ? await db.redis.hget(db.client(clientToken).owed, member) : member;
  return id === null ? undefined : await getNotification(db, clientToken, id);
}
