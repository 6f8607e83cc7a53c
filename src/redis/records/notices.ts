/**
 * The one URL of an account for notices, and the results of its receiver. The platform's URL is a setting, so only the
 * results of its receiver are kept.
 */
import { type Db, nowOf } from '../connection/db.js';
import type { FieldOf } from '../connection/fields.js';
import { toldAccount } from '../connection/keys.js';
import { runPipeline } from '../connection/pipeline.js';
import { runScript, runTable } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import type { SecretBox } from './secretBox.js';
import { createSigningSecret } from './signingSecrets.js';

/** Times are ms since the epoch. */
export interface NoticesUrl {
  url: string;
  setAtMs: number;
  lastSuccessAtMs?: number;
  lastFailureAtMs?: number;
  lastError?: string;
  lastStatus?: number;
}

/** Sets or replaces an account's URL; makes the signing secret of its notices if there is none. Safe to repeat. */
export async function setNoticesUrl(
  db: Db,
  box: SecretBox,
  accountId: string,
  url: string,
): Promise<NoticesUrl> {
  const told = toldAccount(accountId);
  await createSigningSecret(db, box, told);
  const key = db.client(told).notices;
  const setAtMs = nowOf(db);
  await runPipeline(db.redis.multi().del(key).hset(key, { url, set_at: setAtMs }));
  return { url, setAtMs };
}

export async function getNoticesUrl(db: Db, accountId: string): Promise<NoticesUrl | undefined> {
  const record = await db.redis.hgetall(db.client(toldAccount(accountId)).notices);
  if (!record.url) return undefined;
  const time = (name: FieldOf<'notices'>) => (record[name] ? Number(record[name]) : undefined);
  const optional = <K extends keyof NoticesUrl>(key: K, value: NoticesUrl[K] | undefined) =>
    value === undefined ? {} : { [key]: value };
  return {
    url: record.url,
    setAtMs: Number(record.set_at ?? 0),
    ...optional('lastSuccessAtMs', time('last_success_at')),
    ...optional('lastFailureAtMs', time('last_failure_at')),
    ...optional('lastError', record.last_error || undefined),
    ...optional('lastStatus', record.last_status ? Number(record.last_status) : undefined),
  };
}

/** Removes the URL with its signing secrets. @returns the URL; undefined if there was none */
export async function removeNoticesUrl(db: Db, accountId: string): Promise<string | undefined> {
  const { notices, signingSecrets } = db.client(toldAccount(accountId));
  const commands = db.redis.multi().hget(notices, 'url').del(notices, signingSecrets);
  const [url] = (await runPipeline(commands)) as [string | null];
  return url ?? undefined;
}

/**
 * Checks whether a notice may be attempted now: a receiver that has failed several times in a row gets one attempt at a time.
 * @param told `toldAccount` or `toldPlatform`
 * @returns 0, or the time to wait, ms
 */
export async function takeNotice(
  db: Db,
  told: string,
  limits: { failingAfter: number; leaseMs: number },
): Promise<number> {
  return Number(await runScript(db, takeScript, told, [limits.failingAfter, limits.leaseMs]));
}

const takeScript = script('takeNotice');

export interface NoticeAnswer {
  ok: boolean;
  status?: number;
  error?: string;
  retryAfterMs?: number;
}

/** Writes the result of an attempt. @param setAtMs of the URL that was used; undefined for the platform's */
export async function settleNotice(
  db: Db,
  told: string,
  { ok, status, error, retryAfterMs }: NoticeAnswer,
  setAtMs: number | undefined,
): Promise<void> {
  await runTable(db, settleScript, told, {
    set_at: setAtMs === undefined ? '' : String(setAtMs),
    ok,
    error: error ?? '',
    status: status ?? '',
    retry_after: retryAfterMs ?? 0,
  });
}

const settleScript = script('settleNotice');
