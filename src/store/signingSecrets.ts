/**
 * A client's signing secrets (`whsec_`), encrypted at rest. The hash `{T}:signing-secrets`:
 *   current                  the sealed secret
 *   previous:<until>:<n>     a sealed earlier one that signs along until then (ms)
 */
import { randomBytes } from 'node:crypto';
import type { Db } from './db.js';
import { clientScript, runScript, text } from './script.js';
import type { SecretBox } from './secretBox.js';

/** How long a previous secret signs along. */
export const previousSigningSecretMs = 24 * 3600 * 1000;

/** Each adds a signature to every notification: a header must not grow without end. The oldest makes room. */
export const previousSigningSecretsAtMost = 10;

/** Current first, then the previous ones that still sign along, newest first; empty before one was made. */
export async function signingSecrets(db: Db, box: SecretBox, clientToken: string): Promise<string[]> {
  const fields = await db.redis.hgetall(db.client(clientToken).signingSecrets);
  return decodeSigningSecrets(box, fields, Date.now() + db.clockOffsetMs());
}

/** The same from the raw fields of the hash. */
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

/** A new secret; the one until now signs along for 24 h, and so do up to nine earlier ones for their own 24 h. */
export async function rotateSigningSecret(
  db: Db,
  box: SecretBox,
  clientToken: string,
): Promise<{ signingSecret: string; previousValidUntilMs: number | undefined }> {
  const signingSecret = newSigningSecret();
  const until = await runScript(db, rotateScript, clientToken, [
    box.seal(signingSecret),
    previousSigningSecretMs,
    randomBytes(4).toString('hex'),
    previousSigningSecretsAtMost,
  ]);
  return { signingSecret, previousValidUntilMs: until === null ? undefined : Number(until) };
}

const rotateScript = clientScript(`
local S = base .. 'signing-secrets'
local old = redis.call('HGET', S, 'current')
redis.call('HSET', S, 'current', ARGV[2])
if not old then return false end
local previous = {}
for _, name in ipairs(redis.call('HKEYS', S)) do
  local till = tonumber(string.match(name, '^previous:(%d+)'))
  if till then previous[#previous + 1] = {till = till, name = name} end
end
table.sort(previous, function(a, b) return a.till > b.till end)
for i, one in ipairs(previous) do
  if one.till <= now or i >= tonumber(ARGV[5]) then redis.call('HDEL', S, one.name) end
end
local till = now + tonumber(ARGV[3])
redis.call('HSET', S, string.format('previous:%d:%s', till, ARGV[4]), old)
return till
`);

/** Standard Webhooks 1.0.0: `whsec_` and the base64 of 24 to 64 bytes. */
export const newSigningSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;
