import type { Logger } from '../log.js';
import { webhookRequest } from '../outgoing/notification.js';
import type { PostResult, Sender } from '../outgoing/post.js';
import type { Db } from '../redis/connection/db.js';
import { toldAccount, toldPlatform } from '../redis/connection/keys.js';
import type { DeliverySchedule } from '../redis/owed/settle.js';
import { getAccount } from '../redis/records/accounts.js';
import { getClient } from '../redis/records/clients.js';
import { getNoticesUrl, settleNotice, takeNotice } from '../redis/records/notices.js';
import type { NoticeKind } from '../redis/records/owedNotices.js';
import type { SecretBox } from '../redis/records/secretBox.js';
import { signingSecrets } from '../redis/records/signingSecrets.js';
import { bodyOf, type Notice } from './notice.js';

export interface SendDeps {
  db: Db;
  sender: Sender;
  secretBox: SecretBox;
  settings: Pick<DeliverySchedule, 'retryScheduleMs' | 'retryWindowMs' | 'failingAfter'> & {
    leaseMs: number;
  };
  /** The platform's URL for notices; undefined if there is none. */
  platform: { url: string; secrets: readonly string[] } | undefined;
  log: Logger;
  metrics: NoticeMetrics;
}

export interface NoticeMetrics {
  /** Counts a notice by how it ended. */
  noticeEnded(kind: NoticeKind, result: NoticeResult): void;
  /** Counts an attempt that this process could not make. */
  ownFailure(cause: string): void;
}

/** `cancelled`: the recipient or the client is gone. */
export const noticeResults = ['delivered', 'failed', 'cancelled'] as const;
export type NoticeResult = (typeof noticeResults)[number];

export type Sent =
  | { state: NoticeResult; why: string; status?: number }
  /** Another attempt follows. */
  | { state: 'waiting'; inMs: number; why: string; status?: number };

/** The progress of a notice. */
export interface SoFar {
  /** Attempts that failed or were postponed. */
  tries: number;
  /** When its workflow began, ms. */
  startedAtMs: number;
}

/** Makes one attempt of a notice, to the URL that is set now. @throws any error of Redis */
export async function sendNotice(deps: SendDeps, notice: Notice, soFar: SoFar): Promise<Sent> {
  const sent = await attempt(deps, notice, soFar);
  if (sent.state !== 'waiting') deps.metrics.noticeEnded(notice.kind, sent.state);
  return sent;
}

async function attempt(deps: SendDeps, notice: Notice, soFar: SoFar): Promise<Sent> {
  const { db, settings } = deps;
  if ((await getClient(db, notice.clientToken)) === undefined) return cancelled('its client was deleted');
  const target = await targetOf(deps, notice);
  if (typeof target === 'string') return cancelled(target);
  const waitMs = await takeNotice(db, target.told, settings);
  if (waitMs > 0) return later(deps, soFar, { why: 'its receiver asked to wait, or is failing', waitMs });

  const result = await post(deps, notice, target);
  if (result === undefined) return later(deps, soFar, { why: 'no connection was free', waitMs: 0 });
  if (result.ours !== undefined) {
    deps.metrics.ownFailure(result.ours);
    return later(deps, soFar, { why: `could not be sent: ${result.ours}`, waitMs: 0 });
  }
  await settleNotice(db, target.told, result, target.setAtMs);
  const { status, error } = result;
  const answered = status === undefined ? {} : { status };
  if (result.ok) return { state: 'delivered', why: 'answered 2xx', ...answered };
  deps.log.info(
    { client_token: notice.clientToken, kind: notice.kind, to: notice.to, status, error },
    'an attempt of a notice failed',
  );
  const why = status === undefined ? `${error}` : `${error} ${status}`;
  if (status === 410) return { state: 'failed', why: 'its receiver is gone (410)', ...answered };
  return { ...later(deps, soFar, { why, waitMs: result.retryAfterMs ?? 0 }), ...answered };
}

interface Target {
  /** `toldAccount` or `toldPlatform` */
  told: string;
  url: string;
  secrets: readonly string[];
  setAtMs?: number;
}

/** Returns the current target of a notice, or the reason why there is none. */
async function targetOf({ db, secretBox, platform }: SendDeps, notice: Notice): Promise<Target | string> {
  if (notice.to === 'platform') {
    return platform === undefined ? 'NOTICES_URL is not set any more' : { told: toldPlatform, ...platform };
  }
  const { accountId } = notice;
  const account = await getAccount(db, accountId);
  if (account === undefined) return 'its account was deleted';
  if (account.disabled) return 'its account is disabled';
  const told = toldAccount(accountId);
  const found = await getNoticesUrl(db, accountId);
  const secrets = found === undefined ? [] : await signingSecrets(db, secretBox, told);
  if (found === undefined || secrets.length === 0) return 'the account has no notices URL any more';
  return { told, url: found.url, secrets, setAtMs: found.setAtMs };
}

/** The time for which a notice waits for a connection to its receiver's origin, which notifications use too. */
const placeWithinMs = 20_000;

/** @returns undefined if no connection was free */
async function post(
  { sender }: SendDeps,
  notice: Notice,
  { told, url, secrets }: Target,
): Promise<PostResult | undefined> {
  const waiting = new AbortController();
  const timer = setTimeout(() => waiting.abort(), placeWithinMs);
  const place = await sender.place(url, told, waiting.signal).catch((err: unknown) => {
    if (waiting.signal.aborted) return undefined;
    throw err;
  });
  clearTimeout(timer);
  if (place === undefined) return undefined;
  const { id, clientToken } = notice;
  return await place.post(webhookRequest({ id, clientToken, body: bodyOf(notice) }, secrets, Date.now()));
}

/** Returns when the next attempt is due, with the jitter of a notification's; after the retry window there is none. */
function later(
  { settings }: SendDeps,
  { tries, startedAtMs }: SoFar,
  { why, waitMs }: { why: string; waitMs: number },
): Sent {
  const { retryScheduleMs, retryWindowMs } = settings;
  const scheduled = retryScheduleMs[Math.min(tries, retryScheduleMs.length - 1)] as number;
  const inMs = Math.ceil(Math.max(scheduled, waitMs) * (1 + 0.1 * Math.random()));
  if (Date.now() + inMs - startedAtMs > retryWindowMs) return { state: 'failed', why };
  return { state: 'waiting', inMs, why };
}

const cancelled = (why: string): Sent => ({ state: 'cancelled', why });
