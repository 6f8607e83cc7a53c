import type { ClientToken } from '../../ids.js';
import { reencryptSigningSecrets } from '../../redis/records/reencrypt.js';
import { createSecretBox } from '../../redis/records/secretBox.js';
import { replaceSigningSecret, rotateSigningSecret } from '../../redis/records/signingSecrets.js';
import { type AddCommand, type Operator, Refused, requireClient } from '../operator.js';
import { moment, span } from '../terminal/words.js';

export function addSecretsCommands(add: AddCommand): void {
  add(
    'reencrypt',
    'encrypt all signing secrets and request headers with the first key of SECRETS_KEY',
    reencrypt,
  );
  add(
    'rotate <token>',
    "replace a client's signing secret; the old one also signs for 24 h",
    rotateOfClient,
  ).option('--now', 'the old one and every earlier one end immediately');
}

async function reencrypt(operator: Operator): Promise<void> {
  const keys = operator.config().SECRETS_KEY;
  const [newest] = keys ?? [];
  if (newest === undefined) throw new Refused('SECRETS_KEY is not set: there is no key to encrypt with.');
  const db = await operator.db();
  const counts = await reencryptSigningSecrets(db, createSecretBox(keys));
  await operator.record('secrets reencrypt', newest.id, null, {
    reencrypted: counts.reencrypted,
    unreadable: counts.unreadable,
  });
  if (counts.unreadable.length > 0) {
    throw new Refused(
      `${counts.reencrypted} are now encrypted with the key "${newest.id}". SECRETS_KEY has no key for the secrets of: ` +
        counts.unreadable.join(', '),
    );
  }
  operator.answer(
    { key_id: newest.id, reencrypted: counts.reencrypted, unchanged: counts.unchanged },
    () =>
      `${counts.reencrypted} signing secrets and request headers are now encrypted with the key "${newest.id}"; ` +
      `${counts.unchanged} were already.`,
  );
}

async function rotateOfClient(
  operator: Operator,
  token: ClientToken,
  { now = false }: { now?: boolean },
): Promise<void> {
  await requireClient(operator, token);
  const until = await rotate(operator, token, now);
  await operator.record('secrets rotate', token, null, { old_ones_end: now ? 'now' : 'in 24 h' });
  const readBy = 'its publisher reads it with GET /push_notifications/signing_secret';
  operator.answer(
    { client_token: token, previous_valid_until: until },
    () => `${token} has a new signing secret; ${readBy}. ${endOfOld(now)}`,
  );
}

export const endOfOld = (now: boolean): string =>
  now ? 'Every earlier one has ended.' : 'The old one also signs for 24 h.';

/**
 * Replaces a signing secret.
 * @param now also ends every earlier secret
 * @returns until when the old one also signs, ISO 8601; null if it has ended
 * @throws Refused while ten earlier ones still sign
 */
export async function rotate(operator: Operator, clientToken: string, now: boolean): Promise<string | null> {
  const box = createSecretBox(operator.config().SECRETS_KEY);
  if (now) {
    await operator.change((db) => replaceSigningSecret(db, box, clientToken));
    return null;
  }
  const done = await operator.change((db) => rotateSigningSecret(db, box, clientToken));
  if (done.outcome === 'rotated') return moment(done.previousValidUntilMs) ?? null;
  throw new Refused(
    `Ten earlier signing secrets of ${clientToken} still sign; the oldest ends in ${span(done.waitMs)}. ` +
      'With --now all of them end immediately.',
  );
}
