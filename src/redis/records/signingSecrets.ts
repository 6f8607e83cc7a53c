/**
 * A client's signing secrets (`whsec_`), encrypted at rest. The hash `{T}:signing-secrets`:
 *   current                  the sealed secret
 *   previous:<until>:<n>     a sealed previous one that still signs until then (ms)
 *   header:<name>            a sealed request header (requestHeaders.ts)
 */
import { randomBytes } from 'node:crypto';
import { type Db, nowOf } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import type { SealedFor, SecretBox } from './secretBox.js';

/** How long a previous secret still signs. */
export const previousSigningSecretMs = 24 * 3600 * 1000;

/** A bound, because each secret adds a signature to the header of every notification. */
export const previousSigningSecretsAtMost = 10;

/** Reads the current secret, then the previous ones that still sign, newest first; empty before one was made. */
export async function signingSecrets(db: Db, box: SecretBox, clientToken: string): Promise<string[]> {
  const fields = await db.redis.hgetall(db.client(clientToken).signingSecrets);
  return decodeSigningSecrets(box, clientToken, fields, nowOf(db));
}

/** Returns until when each previous one still signs, ms, the latest first. */
export async function previousSigningSecretsUntil(db: Db, clientToken: string): Promise<number[]> {
  const nowMs = nowOf(db);
  return (await db.redis.hkeys(db.client(clientToken).signingSecrets))
    .filter((field) => field.startsWith('previous:'))
    .map((field) => Number(field.split(':')[1]))
    .filter((untilMs) => untilMs > nowMs)
    .sort((a, b) => b - a);
}

/** Reads the same from the raw fields of the hash. */
export function decodeSigningSecrets(
  box: SecretBox,
  clientToken: string,
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
  return [current, ...previous.map((secret) => secret.sealed)].map((sealed) =>
    box.open(sealed, { clientToken, use: 'signing' }),
  );
}

/** Returns the client's current secret, and makes it if there is none. Concurrent callers get the same one. */
export async function createSigningSecret(db: Db, box: SecretBox, clientToken: string): Promise<string> {
  const of = { clientToken, use: 'signing' } as const;
  const made = box.seal(newSigningSecret(), of);
  return box.open(String(await runScript(db, 'createSigningSecret', clientToken, [made])), of);
}

export type Rotated =
  | { outcome: 'rotated'; signingSecret: string; previousValidUntilMs: number | undefined }
  /** The most previous secrets still sign; the oldest ends after `waitMs`. */
  | { outcome: 'too_many'; waitMs: number };

/**
 * Makes a new secret. The former one still signs for 24 h, like each earlier one for its own 24 h. It refuses while
 * ten still sign, so that no secret that a receiver still uses ends early.
 */
export async function rotateSigningSecret(db: Db, box: SecretBox, clientToken: string): Promise<Rotated> {
  const signingSecret = newSigningSecret();
  const [done, number] = (await runScript(db, 'rotateSigningSecret', clientToken, [
    box.seal(signingSecret, { clientToken, use: 'signing' }),
    previousSigningSecretMs,
    randomBytes(4).toString('hex'),
    previousSigningSecretsAtMost,
    0,
  ])) as [number, number | null];
  if (done === 0) return { outcome: 'too_many', waitMs: Number(number) };
  return { outcome: 'rotated', signingSecret, previousValidUntilMs: number ?? undefined };
}

/** Returns how long until the secret may be rotated, ms; 0 if it may be rotated now. */
export async function rotationWaitMs(db: Db, clientToken: string): Promise<number> {
  const args = ['', previousSigningSecretMs, '', previousSigningSecretsAtMost, 1];
  const [may, waitMs] = (await runScript(db, 'rotateSigningSecret', clientToken, args)) as [number, number];
  return may === 1 ? 0 : Number(waitMs);
}

/** Makes a new secret and ends every earlier one immediately: for a secret that somebody else has seen. */
export async function replaceSigningSecret(db: Db, box: SecretBox, clientToken: string): Promise<void> {
  const sealed = box.seal(newSigningSecret(), { clientToken, use: 'signing' });
  await runScript(db, 'replaceSigningSecret', clientToken, [sealed]);
}

/** Standard Webhooks 1.0.0: `whsec_` and the base64 of 24 to 64 bytes. */
export const newSigningSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`;

/** Returns the use of a field of the hash, for which its secret is sealed. */
export const useOfField = (field: string): SealedFor['use'] =>
  field.startsWith('header:') ? (field as `header:${string}`) : 'signing';
