/** Claims notices: a change of an endpoint's state, or of a signing secret, becomes an event of the clients of notices. */
import { shared } from '../constants.js';
import { type ClientToken, isNoticesClient, noticesClient, notificationId } from '../ids.js';
import type { Logger } from '../log.js';
import type { Db } from '../redis/connection/db.js';
import { claimOnly } from '../redis/owed/claim.js';
import { announceClaims } from '../redis/owed/owedClients.js';
import { getClient } from '../redis/records/clients.js';
import { type Endpoint, getEndpoint } from '../redis/records/endpoint.js';
import { dropNotice, type Notice, unclaimedNotices } from '../redis/records/notices.js';
import { getRegistration } from '../redis/records/registrations.js';

interface NoticesDeps {
  db: Db;
  catchUps: { alarm(clientToken: string): Promise<unknown> };
  log: Logger;
  metrics: { ended(state: string): void };
}

export type Notices = ReturnType<typeof createNotices>;

export function createNotices(deps: NoticesDeps) {
  /** Claims the notices of a client. @throws any error of Redis; the notices are kept */
  const claim = (clientToken: string) => claimNotices(deps, clientToken);
  return {
    claim,
    /** Claims the notices of a client soon, without a wait for the caller. If that fails, the sweep claims them. */
    claimSoon(clientToken: string): void {
      claim(clientToken).catch((err: unknown) =>
        deps.log.warn({ err, client_token: clientToken }, 'a notice is not claimed yet; the sweep claims it'),
      );
    },
  };
}

async function claimNotices(deps: NoticesDeps, clientToken: string): Promise<void> {
  const { db } = deps;
  const notices = await unclaimedNotices(db, clientToken);
  if (notices.length === 0) return;
  // Neither a URL for notices nor a deleted client makes a notice.
  const client = isNoticesClient(clientToken) ? undefined : await getClient(db, clientToken);
  for (const notice of notices) {
    if (client !== undefined) {
      const endpoint = await getEndpoint(db, clientToken);
      if (isGrowing(notice, endpoint.readAt)) continue;
      const body = noticeBody(notice, { ...client, ...endpoint });
      const isOver = notice.field === 'failed_notice' && endpoint.failed === 0;
      for (const recipient of isOver ? [] : [client.accountId, 'platform'].map(noticesClient)) {
        if (await getRegistration(db, recipient))
          await claimNotice(deps, recipient, clientToken, notice, body);
      }
    }
    await dropNotice(db, clientToken, notice);
  }
}

/** Assets that fail together make one notice: it is claimed once none has failed for 30 s (a killed worker is replaced by then), or a minute after the first. */
const isGrowing = ({ field, at, since }: Notice, now: number): boolean =>
  field === 'failed_notice' && at <= now && now - at < 30_000 && now - since < 60_000;

/** Claims a notice for one recipient. A repeat finds the same notification, and an outdated one changes nothing. Catch-up delivers it. */
async function claimNotice(
  { db, catchUps, metrics }: NoticesDeps,
  recipient: ClientToken,
  about: string,
  { field, kind, number }: Notice,
  body: string,
): Promise<void> {
  const change = `${kind}:${number}`;
  const platformId = field === 'state_notice' ? about : `${about}/${field.replace('_notice', '')}`;
  const event = { clientToken: recipient, platformId, eventId: change, segments: [change] };
  await announceClaims(db, recipient);
  const own = { notificationId: notificationId(event), acceptedAt: number, body };
  const told = { ...event, ...own, priority: 'live' as const, notify: true, group: shared.withoutWorkflow };
  const [made] = (await claimOnly(db, recipient, [told])).claims;
  if (made?.kind !== 'claimed') return;
  if (made.supersedes) metrics.ended('superseded');
  await catchUps.alarm(recipient);
}

export function noticeBody(
  { kind, at, reason, since, attempts_failed }: Omit<Notice, 'field' | 'stored' | 'number'>,
  client: { accountId: string; clientToken: string } & Pick<Endpoint, 'owed' | 'failed' | 'failedSince'>,
): string {
  const { failed, failedSince } = client;
  const isFailed = kind === 'notifications.failed';
  return JSON.stringify({
    event: kind,
    account_id: client.accountId,
    client_token: client.clientToken,
    at: new Date(at).toISOString(),
    reason,
    since: new Date(isFailed ? (failedSince ?? since) : since).toISOString(),
    ...(isFailed ? { count: failed } : { attempts_failed }),
    owed: client.owed,
  });
}

/** Returns the body of `notices.changed` (contract, section 5b). */
export const changedBody = (accountId: string, at: number, change: 'replaced' | 'removed'): string =>
  JSON.stringify({
    event: 'notices.changed',
    account_id: accountId,
    at: new Date(at).toISOString(),
    reason: `the URL for notices was ${change}: this one gets no more`,
  });
