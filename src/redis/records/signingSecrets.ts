/**
 * A client's signing secrets (`whsec_`), encrypted at rest. The hash `{T}:signing-secrets`:
 *   current                  the sealed secret
 *   previous:<until>:<n>     a sealed earlier one that signs along until then (ms)
 */
import { randomBytes } from 'node:crypto';
import type { Db } from '../connection/db.js';
import { clientScript, runScript, text } from '../connection/script.js';
import type { SecretBox } from './secretBox.js';

/** How long a previous secret signs along. */
export const previousSigningSecretMs = 24 * 3600 * 1000;

/** Each adds a signature to every notification: a header must not grow without end. */
export const previousSigningSecretsAtMost = 10;

/** Current first, then the previous ones that still sign along, newest first; empty before one was made. */
export async function signingSecrets(db: Db, box: SecretBox, clientToken: string): Promise<string[]> {
  const fields = await db.redis.hgetall(db.client(clientToken).signingSecrets);
  return decodeSigningSecrets(box, fields, Date.now() + db.clockOffsetMs());
}

/** Until when each previous one signs along, ms, the latest first. */
export async function previousSigningSecretsUntil(db: Db, clientToken: string): Promise<number[]> {
  const nowMs = Date.now() + db.clockOffsetMs();
  return (await db.redis.hkeys(db.client(clientToken).signingSecrets))
    .filter((field) => field.startsWith('previous:'))
    .map((field) => Number(field.split(':')[1]))
    .filter((untilMs) => untilMs > nowMs)
    .sort((a, b) => b - a);
}

/** Those of `signingSecrets`, from the raw fields of the hash. */
export function decodeSigningSecrets(
  box: SecretBox,
  fields: Readonly<Record<string, string>>,
  nowMs: number,
): string[] {
  const { current } = fields;
  if (!current) return [];
  const previous = Object.entries(fields)
    .filter(([field]) => field.startsWith('previous:'))
    .map(([field, sealed]) => ({ untilMs: Number(field.split(':')[1]), sealed }))
    .filter((secret) => secret.untilMs > nowMs)
    .sort((a, b) => b.untilMs - a.untilMs);
  return [current, ...previous.map((secret) => secret.sealed)].map((sealed) => box.open(sealed));
}

/** The client's current secret, made when it has none. Any number of callers at once get the same one. */
export async function createSigningSecret(db: Db, box: SecretBox, clientToken: string): Promise<string> {
  const sealed = text(await runScript(db, createScript, clientToken, [box.seal(newSigningSecret())]));
  return box.open(sealed);
}

const createScript = clientScript(`
redis.call('HSETNX', base .. 'signing-secrets', 'current', ARGV[2])
return redis.call('HGET', base .. 'signing-secrets', 'current')
`);

export type Rotated =
  | { outcome: 'rotated'; signingSecret: string; previousValidUntilMs: number | undefined }
  /** As many sign along as may; the oldest ends after `waitMs`. */
  | { outcome: 'too_many'; waitMs: number };

/**
 * A new secret; the one until now signs along for 24 h, as each earlier one does for its own 24 h. Refused while ten
 * sign along: no secret that a receiver still checks with ends before its time.
 */
export async function rotateSigningSecret(db: Db, box: SecretBox, clientToken: string): Promise<Rotated> {
  const signingSecret = newSigningSecret();
  const [done, number] = (await runScript(db, rotateScript, clientToken, [
    box.seal(signingSecret),
    previousSigningSecretMs,
    randomBytes(4).toString('hex'),
    previousSigningSecretsAtMost,
    1,
  ])) as [number, number | null];
  if (done === 0) return { outcome: 'too_many', waitMs: Number(number) };
  return { outcome: 'rotated', signingSecret, previousValidUntilMs: number ?? undefined };
}

/** How long until the secret may be rotated, ms; 0 where it may be now. */
export async function rotationWaitMs(db: Db, clientToken: string): Promise<number> {
  const asked = ['', previousSigningSecretMs, '', previousSigningSecretsAtMost, 0];
  const [may, waitMs] = (await runScript(db, rotateScript, clientToken, asked)) as [number, number];
  return may === 1 ? 0 : Number(waitMs);
}

// ARGV 2 the sealed secret, 3 how long one signs along (ms), 4 a name, 5 how many may, 6 '0': only to ask. Answers {1, until when the last
// one signs along} ({1} where there was none), or {0, ms until there is room}.
const rotateScript = clientScript(`
local S = base .. 'signing-secrets'
local old = redis.call('HGET', S, 'current')
local signing, first = 0, nil
for _, name in ipairs(redis.call('HKEYS', S)) do
  local till = tonumber(string.match(name, '^previous:(%d+)'))
  if till and till <= now and ARGV[6] == '1' then
    redis.call('HDEL', S, name)
  elseif till and till > now then
    signing = signing + 1
    first = math.min(first or till, till)
  end
end
if old and signing >= tonumber(ARGV[5]) then return {0, first - now} end
if ARGV[6] == '0' then return {1} end
redis.call('HSET', S, 'current', ARGV[2])
if not old then return {1} end
local till = now + tonumber(ARGV[3])
redis.call('HSET', S, string.format('previous:%d:%s', till, ARGV[4]), old)
return {1, till}
`);

/** A new secret, and every earlier one ends at once: for one that somebody else has seen. */
export async function replaceSigningSecret(db: Db, box: SecretBox, clientToken: string): Promise<void> {
  await runScript(db, replaceScript, clientToken, [box.seal(newSigningSecret())]);
}

const replaceScript = clientScript(`
redis.call('DEL', base .. 'signing-secrets')
redis.call('HSET', base .. 'signing-secrets', 'current', ARGV[2])
return 1
`);

/** Standard Webhooks 1.0.0: `whsec_` and the base64 of 24 to 64 bytes. */
export const newSigningSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;
