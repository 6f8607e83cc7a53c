import type { Client } from '@temporalio/client';
import { noticeId } from '../ids.js';
import type { Db } from '../redis/connection/db.js';
import type { EndpointHealth } from '../redis/owed/settle.js';
import { getClient } from '../redis/records/clients.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { getNoticesUrl } from '../redis/records/notices.js';
import {
  dropOwedNotice,
  keepOwedNotice,
  type NoticeKind,
  type OwedNotice,
  owedNotices,
  type Recipient,
} from '../redis/records/owedNotices.js';
import { presented } from './notice.js';
import { startNotice } from './start.js';

export interface HandOverDeps {
  db: Db;
  temporal: Client;
  taskQueue: string;
  /** Whether the platform has a URL for notices. */
  tellsPlatform: boolean;
}

/**
 * Starts the workflows of the notices that a client has to tell. Drops what nobody wants to hear, and what is no longer so.
 * Keeps for the next hour what comes second of its kind in this one.
 * @throws what Redis or Temporal throws; the notice is kept
 */
export async function handOverNotices(deps: HandOverDeps, clientToken: string): Promise<void> {
  const { health, notices } = await owedNotices(deps.db, clientToken);
  for (const notice of notices) {
    if (notice.notBefore <= nowOf(deps.db)) await handOver(deps, clientToken, notice, health);
  }
}

async function handOver(
  deps: HandOverDeps,
  clientToken: string,
  notice: OwedNotice,
  health: EndpointHealth,
): Promise<void> {
  const { db, temporal, taskQueue } = deps;
  const client = isStillSo(notice.kind, health) ? await getClient(db, clientToken) : undefined;
  const wanted = client === undefined ? [] : await recipients(deps, client.accountId);
  const left = wanted.filter((to) => !notice.told.includes(to));
  if (client === undefined || left.length === 0) return await dropOwedNotice(db, clientToken, notice);

  const { owed } = await getEndpoint(db, clientToken);
  const { kind, at, reason, since, attemptsFailed } = notice;
  const said = { kind, accountId: client.accountId, clientToken, at, reason, since, attemptsFailed, owed };
  const hourAt = Math.floor(nowOf(db) / hourMs) * hourMs;
  const hour = presented(hourAt).slice(0, 'YYYY-MM-DDTHH'.length);
  const told = [...notice.told];
  for (const to of left) {
    try {
      const id = noticeId({ to, clientToken, kind, at });
      if ((await startNotice(temporal, taskQueue, { id, to, ...said }, hour)) === 'started') told.push(to);
    } catch (err) {
      // Told once is told: what has begun is not begun again in another hour.
      if (told.length > notice.told.length)
        await keepOwedNotice(db, clientToken, notice, { told, notBefore: 0 });
      throw err;
    }
  }
  if (left.every((to) => told.includes(to))) await dropOwedNotice(db, clientToken, notice);
  else await keepOwedNotice(db, clientToken, notice, { told, notBefore: hourAt + hourMs });
}

const hourMs = 3_600_000;

const nowOf = (db: Db): number => Date.now() + db.clockOffsetMs();

/** A state that the endpoint has left is no news; the one that it came to has a notice of its own, or needs none. */
function isStillSo(kind: NoticeKind, health: EndpointHealth): boolean {
  switch (kind) {
    case 'endpoint.failing':
      return health === 'failing';
    case 'endpoint.suspended':
      return health === 'suspended';
    case 'endpoint.recovered':
      return health === 'active';
    case 'secret.rotated':
      return true;
  }
}

async function recipients({ db, tellsPlatform }: HandOverDeps, accountId: string): Promise<Recipient[]> {
  const url = await getNoticesUrl(db, accountId);
  return [
    ...(url === undefined ? [] : ['account' as const]),
    ...(tellsPlatform ? ['platform' as const] : []),
  ];
}
