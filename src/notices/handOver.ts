import type { Client } from '@temporalio/client';
import { noticeId } from '../ids.js';
import { type Db, nowOf } from '../redis/connection/db.js';
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
import type { SendDeps } from './send.js';
import { startNotice } from './start.js';

export interface HandOverDeps {
  db: Db;
  temporal: Client;
  taskQueue: string;
  /** Undefined if the platform has no URL for notices. */
  platform: SendDeps['platform'];
}

/**
 * Starts the workflows of a client's notices. Drops notices without a recipient, and notices whose state has changed since.
 * Keeps a second notice of one kind in an hour for the next hour.
 * @throws any error of Redis or Temporal; the notice is kept
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
      // A recipient whose workflow has started gets no second one in another hour.
      if (told.length > notice.told.length)
        await keepOwedNotice(db, clientToken, notice, { told, notBefore: 0 });
      throw err;
    }
  }
  if (left.every((to) => told.includes(to))) await dropOwedNotice(db, clientToken, notice);
  else await keepOwedNotice(db, clientToken, notice, { told, notBefore: hourAt + hourMs });
}

const hourMs = 3_600_000;

/** Returns whether a notice still holds. The state that followed has its own notice, or needs none. */
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

async function recipients({ db, platform }: HandOverDeps, accountId: string): Promise<Recipient[]> {
  const url = await getNoticesUrl(db, accountId);
  return [
    ...(url === undefined ? [] : ['account' as const]),
    ...(platform === undefined ? [] : ['platform' as const]),
  ];
}
